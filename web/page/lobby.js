/** Before the show: asks the server what it offers, again until everything is ready, and puts faces and samples out. */

import { backoffMs } from "../client/backoff.js";
import { Failure, PASSING_CODES } from "../client/failure.js";
import { Seats } from "./seats.js";

const REFRESH_MS = 2000;
const POSTER_PX = 768;

/** Fires `change` after each answer of the server and when another face is chosen. */
export class Lobby extends EventTarget {
  /** Why nothing can be started, or null. @type {Failure | null} */
  closed = null;
  /** A face that was asked for and does not exist. @type {Failure | null} */
  missing = null;
  /** The engine still warms up: starting works and waits. @type {Failure | null} */
  warming = null;
  #api;
  #picker;
  #prompter;
  #stage;
  #seats;
  /** @type {string | null} */
  #hungId = null;
  /** @type {number | undefined} */
  #timer;

  /**
   * @param {import("../client/api.js").Api} api
   * @param {import("./picker.js").Picker} picker
   * @param {import("./prompter.js").Prompter} prompter
   * @param {import("./stage.js").Stage} stage
   */
  constructor(api, picker, prompter, stage) {
    super();
    this.#api = api;
    this.#picker = picker;
    this.#prompter = prompter;
    this.#stage = stage;
    this.#seats = new Seats(api);
    picker.addEventListener("choose", () => {
      this.missing = null;
      this.#hangPoster();
    });
  }

  /** The avatar to start with, or null while nothing can be started. */
  get avatar() {
    return this.closed ? null : this.#picker.chosen;
  }

  /** What to tell a visitor before anything is started. */
  get failure() {
    return this.closed ?? this.missing ?? this.warming;
  }

  /**
   * @param {string | null} wanted id of the avatar the address names
   * @param {number} [attempt]
   */
  async open(wanted, attempt = 0) {
    clearTimeout(this.#timer);
    let againMs = 0;
    try {
      const capabilities = await this.#api.capabilities();
      const avatars = await this.#api.avatars();
      this.#seats.show(capabilities);
      this.#prompter.show(capabilities);
      const { ready } = capabilities.engine;
      this.warming = ready ? null : new Failure("warming");
      await this.#seat(avatars, wanted);
      if (!ready || this.#picker.unfinished) againMs = REFRESH_MS;
    } catch (error) {
      this.closed = Failure.from(error);
      if (PASSING_CODES.includes(this.closed.code)) againMs = backoffMs(attempt);
    }
    if (againMs > 0) this.#timer = setTimeout(() => this.open(null, attempt + 1), againMs);
    this.dispatchEvent(new Event("change"));
  }

  /** Forgets that a face was missing, once the visitor goes on with another. */
  forgive() {
    this.missing = null;
  }

  /** Somebody came or went: how many seats are free is told anew. */
  recount() {
    this.#seats.recount();
  }

  /**
   * @param {import("../client/api.js").Avatar[]} avatars
   * @param {string | null} wanted
   */
  async #seat(avatars, wanted) {
    const exists = avatars.some(({ id }) => id === wanted);
    if (wanted && !exists) this.missing = new Failure("unknown-avatar", { name: wanted });
    await this.#picker.show(avatars, wanted);
    this.closed = null;
    if (!this.#picker.chosen) this.closed = new Failure(this.#picker.unfinished ? "preparing" : "no-avatars");
    if (this.#picker.chosen && this.#picker.chosen.id !== this.#hungId) await this.#hangPoster();
  }

  async #hangPoster() {
    const avatar = this.#picker.chosen;
    if (!avatar) return;
    this.#hungId = avatar.id;
    const picture = await this.#picker.picture(avatar, POSTER_PX);
    if (avatar.id === this.#picker.chosen?.id) this.#stage.setAvatar(avatar, picture);
  }
}
