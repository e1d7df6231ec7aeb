/** Speech that is still being made: PCM over a WebSocket, held back while the server has enough. See docs/api.md. */

import { Failure } from "./failure.js";

/** Fires `event` (detail object, as on the telemetry channel) and, once, `close`. */
export class SpeechStream extends EventTarget {
  /** Id of the utterance being written, once the server has taken it. @type {string | null} */
  speech = null;
  /** The utterance was cut short: what is written of it goes nowhere, until `end`. */
  interrupted = false;
  #socket;
  #format;
  #bytesPerS;
  #started = false;
  #writtenS = 0;
  #untilS = 0;
  /** @type {Failure | null} */
  #failure = null;
  /** @type {(() => void)[]} */
  #waiting = [];

  /**
   * @param {URL} url of the session's speech path
   * @param {string | null} token
   * @param {{rate: number, channels?: number}} format s16 little-endian, interleaved
   */
  constructor(url, token, { rate, channels = 1 }) {
    super();
    this.#format = { rate, channels };
    this.#bytesPerS = 2 * rate * channels;
    const address = new URL(url);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    this.#socket = new WebSocket(address, token ? ["liveanchor", `bearer.${base64url(token)}`] : ["liveanchor"]);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.addEventListener("open", () => this.#wake());
    this.#socket.addEventListener("message", ({ data }) => this.#receive(JSON.parse(data)));
    this.#socket.addEventListener("close", () => this.#lose());
  }

  /**
   * Writes samples; begins an utterance where none is open. Resolves when they are on their way.
   * @param {Int16Array} samples
   * @throws {Failure} session-ended, speech-refused
   */
  async write(samples) {
    if (!this.#started) await this.#start();
    const seconds = samples.byteLength / this.#bytesPerS;
    await this.#until(() => this.interrupted || this.#writtenS === 0 || this.#writtenS + seconds <= this.#untilS);
    if (this.interrupted) return;
    this.#socket.send(samples);
    this.#writtenS += seconds;
  }

  /** The utterance is complete; the next `write` begins another. */
  end() {
    if (this.#started) this.#say({ type: "end" });
    this.#started = this.interrupted = false;
  }

  /** Falls silent, and drops what is queued, this utterance with it. */
  interrupt() {
    this.interrupted = this.#started;
    this.#say({ type: "interrupt" });
  }

  /** Ends the utterance and the stream; what was written is still spoken. */
  close() {
    this.end();
    this.#socket.close();
  }

  async #start() {
    this.#started = true;
    this.speech = null;
    this.#writtenS = this.#untilS = 0;
    await this.#until(() => this.#socket.readyState === WebSocket.OPEN);
    this.#say({ type: "start", ...this.#format });
    await this.#until(() => this.speech !== null);
  }

  /** @param {object} message */
  #say(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  /** @param {{type: string, speech?: string, until_s?: number, detail?: string, interrupted?: boolean}} message */
  #receive(message) {
    if (message.type === "accepted") this.speech = message.speech ?? null;
    if (message.type === "credit" && message.speech === this.speech) this.#untilS = message.until_s ?? 0;
    if (message.type === "error") this.#failure = new Failure("speech-refused", { detail: message.detail });
    if (message.type === "event") {
      if (this.#started && message.speech === this.speech && message.interrupted) this.interrupted = true;
      this.dispatchEvent(new CustomEvent("event", { detail: message }));
    }
    this.#wake();
  }

  #lose() {
    this.#failure ??= new Failure("session-ended");
    this.#wake();
    this.dispatchEvent(new CustomEvent("close"));
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** @param {() => boolean} condition */
  async #until(condition) {
    while (!condition()) {
      if (this.#failure) throw this.#failure;
      await /** @type {Promise<void>} */ (new Promise((resolve) => this.#waiting.push(resolve)));
    }
    if (this.#failure) throw this.#failure;
  }
}

/** @param {string} text */
function base64url(text) {
  const bytes = String.fromCharCode(...new TextEncoder().encode(text));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
