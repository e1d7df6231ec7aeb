/** The avatar page: joins the way in, the shelf, the preview and the removal. Knows the order of things, no details. */

import { Intake } from "./avatars/intake.js";
import { Removal } from "./avatars/removal.js";
import { Screening } from "./avatars/screening.js";
import { Shelf } from "./avatars/shelf.js";
import { makingTrouble, uploadTrouble } from "./avatars/trouble.js";
import { Works } from "./avatars/works.js";
import { Api } from "./client/api.js";
import { backoffMs } from "./client/backoff.js";
import { Failure, PASSING_CODES } from "./client/failure.js";
import { element } from "./page/element.js";
import { keepToken, readSettings } from "./page/settings.js";

const REFRESH_MS = 2000;

class AvatarPage {
  #api = new Api({ server: new URL("../", document.baseURI), token: readSettings(location).token });
  #works = new Works(this.#api);
  #shelf = new Shelf(this.#api);
  #intake = new Intake((name) => this.#shelf.has(name));
  #screening = new Screening(this.#works);
  #removal = new Removal(this.#works);
  #giveUp = new AbortController();
  /** @type {import("./client/api.js").Sample[]} */
  #samples = [];
  /** @type {number | undefined} */
  #timer;

  constructor() {
    on(this.#intake, "make", ({ file, name }) => this.#make(file, name));
    on(this.#intake, "cancel", () => this.#giveUp.abort());
    on(this.#intake, "trouble", ({ title, detail }) => announce("spoken-alert", `${title}. ${detail}`));
    on(this.#shelf, "preview", (avatar) => this.#screening.show(avatar, this.#samples[0]));
    on(this.#shelf, "remove", (avatar) => this.#removal.ask(avatar));
    on(this.#removal, "removed", (avatar) => this.#forget(avatar));
    element("notice-action", HTMLButtonElement).addEventListener("click", () => this.open());
    element("token-form", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.#api.token = element("token", HTMLInputElement).value;
      keepToken(this.#api.token);
      this.open();
    });
  }

  /** @param {number} [attempt] */
  async open(attempt = 0) {
    clearTimeout(this.#timer);
    let againMs = 0;
    try {
      this.#samples = (await this.#api.capabilities()).samples;
      this.#shelf.show(await this.#api.avatars());
      this.#notice(null);
      if (this.#shelf.unfinished) againMs = REFRESH_MS;
    } catch (error) {
      const failure = Failure.from(error);
      this.#notice(failure);
      if (PASSING_CODES.includes(failure.code)) againMs = backoffMs(attempt);
    }
    clearTimeout(this.#timer); // another call may have been faster
    if (againMs > 0) this.#timer = setTimeout(() => this.open(attempt + 1), againMs);
  }

  /**
   * @param {File} file
   * @param {string} name
   */
  async #make(file, name) {
    this.#giveUp = new AbortController();
    const { signal } = this.#giveUp;
    announce("spoken-status", `Sending ${file.name}.`);
    try {
      this.#intake.progress("Sending the file", 0, true);
      const sent = await this.#works.send(name, file, (share) => this.#intake.progress("Sending the file", share, true), signal);
      announce("spoken-status", `The file has arrived. ${name} is being made.`);
      await this.#finish(await this.#works.follow(sent, (job) => this.#showStep(job)));
    } catch (error) {
      const failure = Failure.from(error);
      if (failure.code === "token-needed") this.#notice(failure);
      this.#intake.fail(signal.aborted ? null : uploadTrouble(failure, file));
      if (signal.aborted) announce("spoken-status", "Cancelled.");
    }
  }

  /** @param {import("./avatars/works.js").Job} job */
  #showStep({ state, progress }) {
    if (state === "waiting") this.#intake.progress("Waiting for its turn", null, false);
    // A portrait is made in one step: a bar that stands at nothing would look stuck.
    else this.#intake.progress("Finding the face and making the anchor", progress > 0 ? progress : null, false);
  }

  /** @param {import("./avatars/works.js").Job} job */
  async #finish({ avatar, state, error, report }) {
    if (state === "failed") {
      this.#intake.fail(makingTrouble(error));
      await this.open();
      return;
    }
    this.#shelf.note(avatar, report);
    await this.open();
    this.#intake.clear();
    announce("spoken-status", `${avatar} is ready${report.grade ? `, grade ${report.grade}` : ""}.`);
    this.#shelf.lead(avatar);
  }

  /** @param {import("./client/api.js").Avatar} avatar */
  async #forget(avatar) {
    this.#shelf.note(avatar.id, null);
    announce("spoken-status", `${avatar.title} is deleted.`);
    await this.open();
    element("picture", HTMLInputElement).focus({ preventScroll: true });
  }

  /** @param {Failure | null} failure why the page shows less than it should */
  #notice(failure) {
    const asksToken = failure?.action === "token";
    element("notice", HTMLElement).hidden = !failure;
    element("notice-title", HTMLParagraphElement).textContent = failure?.title ?? "";
    element("notice-detail", HTMLParagraphElement).textContent = failure?.detail ?? "";
    element("token-form", HTMLFormElement).hidden = !asksToken;
    element("notice-action", HTMLButtonElement).hidden = asksToken;
    if (asksToken) element("token", HTMLInputElement).focus();
    if (failure) announce("spoken-alert", failure.message);
  }
}

/**
 * @param {EventTarget} target
 * @param {string} name
 * @param {(detail: any) => void} listener
 */
function on(target, name, listener) {
  target.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail));
}

/**
 * @param {string} id of a live region
 * @param {string} words said once, when they change
 */
function announce(id, words) {
  const region = element(id, HTMLParagraphElement);
  if (region.textContent !== words) region.textContent = words;
}

new AvatarPage().open();
