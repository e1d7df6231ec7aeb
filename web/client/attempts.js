/** Opening something again and again with growing pauses, for as long as that can help. Knows no WebRTC. */

import { backoffMs } from "./backoff.js";
import { Failure, PASSING_CODES } from "./failure.js";

const MOST_ATTEMPTS = 12;
/** Waiting in line for a seat or for the engine has no limit: each wait is announced with its countdown. */
const PATIENT_CODES = ["server-full", "warming"];

/**
 * @typedef {"connecting" | "reconnecting"} Beginning
 * @typedef {object} Work
 * @property {() => Promise<void>} open resolves when it stands, rejects with a Failure
 * @property {() => void} drop clears away what a failed attempt left
 * @property {(state: Beginning | "failed", failure: Failure | null, retryInMs: number | null) => void} tell
 */

/** One wish to be connected, from `begin` until `end`. */
export class Attempts {
  ended = false;
  #work;
  /** @type {(() => void) | null} */
  #wake = null;

  /** @param {Work} work */
  constructor(work) {
    this.#work = work;
  }

  /**
   * Tries until it stands.
   * @param {Beginning} state told while the first attempt lasts
   * @returns {Promise<boolean>} false if `end` came first
   * @throws {Failure} when trying again cannot help
   */
  async begin(state) {
    this.#work.tell(state, null, null);
    for (let attempt = 0; ; attempt += 1) {
      try {
        await this.#work.open();
        return !this.ended;
      } catch (error) {
        if (this.ended) return false;
        this.#work.drop();
        const failure = Failure.from(error);
        if (!passes(failure, state, attempt)) {
          this.#work.tell("failed", failure, null);
          throw failure;
        }
        await this.#pause(failure, attempt);
        if (this.ended) return false;
      }
    }
  }

  /** Ends a pause, if there is one. */
  retryNow() {
    this.#wake?.();
  }

  end() {
    this.ended = true;
    this.retryNow();
  }

  /**
   * @param {Failure} failure
   * @param {number} attempt
   */
  async #pause(failure, attempt) {
    const ms = failure.retryAfterS ? failure.retryAfterS * 1000 : backoffMs(attempt);
    this.#work.tell("reconnecting", failure, ms);
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
    this.#wake = null;
  }
}

/**
 * Whether a failure passes by itself.
 * @param {Failure} failure
 * @param {Beginning} state
 * @param {number} attempt
 */
function passes(failure, state, attempt) {
  if (PATIENT_CODES.includes(failure.code)) return true;
  if (attempt >= MOST_ATTEMPTS) return false;
  return PASSING_CODES.includes(failure.code) || (state === "reconnecting" && failure.code === "ice-failed");
}
