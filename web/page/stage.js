/** The stage: poster, video with sound, tally light and the lower third. Shows what it is told; decides nothing. */

import { element } from "./element.js";
import { recall, remember } from "./settings.js";

const NAME_SHOWN_MS = 3500;

/**
 * Fires `frame` at the first picture of each stream, `press` when the resting picture is clicked, `action` and `token`
 * (detail string) from the lower third.
 */
export class Stage extends EventTarget {
  #frame = element("frame", HTMLDivElement);
  #poster = element("poster", HTMLImageElement);
  #video = element("video", HTMLVideoElement);
  #tally = element("tally-words", HTMLSpanElement);
  #title = element("lower-title", HTMLParagraphElement);
  #detail = element("lower-detail", HTMLParagraphElement);
  #action = element("lower-action", HTMLButtonElement);
  #tokenForm = element("token-form", HTMLFormElement);
  #token = element("token", HTMLInputElement);
  #hear = element("hear", HTMLButtonElement);
  #silence = element("silence", HTMLButtonElement);
  #volume = element("volume", HTMLInputElement);
  #quiet = { chosen: false, mirrored: false, blocked: false };
  /** @type {number | undefined} */
  #nameTimer;

  constructor() {
    super();
    this.#volume.value = recall("volume") ?? "100";
    this.#action.addEventListener("click", () => this.dispatchEvent(new Event("action")));
    this.#frame.addEventListener("click", () => {
      if (this.#frame.dataset.state === "idle") this.dispatchEvent(new Event("press"));
    });
    this.#tokenForm.addEventListener("submit", (event) => {
      event.preventDefault();
      this.dispatchEvent(new CustomEvent("token", { detail: this.#token.value }));
    });
    this.#hear.addEventListener("click", () => this.#unblock());
    this.#silence.addEventListener("click", () => this.#setQuiet({ chosen: !this.#quiet.chosen }));
    this.#volume.addEventListener("input", () => {
      remember("volume", this.#volume.value);
      this.#setQuiet({ chosen: this.#volume.value === "0" });
    });
    this.#video.addEventListener("resize", () => this.#fit(this.#video.videoWidth, this.#video.videoHeight));
    element("wide", HTMLButtonElement).addEventListener("click", () => this.toggleWide());
    this.#setQuiet({});
  }

  /**
   * Who stands on the stage while no video plays.
   * @param {{title: string, width: number, height: number}} avatar
   * @param {string | null} picture address of the poster
   */
  setAvatar(avatar, picture) {
    this.#fit(avatar.width, avatar.height);
    this.#poster.hidden = !picture;
    this.#poster.alt = `Portrait of ${avatar.title}`;
    if (picture) this.#poster.src = picture;
  }

  /**
   * @param {import("../client.js").State} state
   * @param {string} words beside the tally light
   */
  setState(state, words) {
    const before = this.#frame.dataset.state;
    this.#frame.dataset.state = state;
    this.#tally.textContent = words;
    if (state === before) return;
    clearTimeout(this.#nameTimer);
    if (state !== "live") return;
    this.#frame.dataset.name = "shown";
    this.#nameTimer = setTimeout(() => (this.#frame.dataset.name = "gone"), NAME_SHOWN_MS);
  }

  /** @param {string} words */
  setTally(words) {
    this.#tally.textContent = words;
  }

  /** @param {boolean} speaking */
  setSpeaking(speaking) {
    this.#frame.dataset.speaking = String(speaking);
  }

  /**
   * The lower third: a name, or what went wrong and what to do.
   * @param {{title: string, detail?: string, action?: string | null, askToken?: boolean}} words
   */
  say({ title, detail = "", action = null, askToken = false }) {
    this.#title.textContent = title;
    this.#detail.textContent = detail;
    this.#action.hidden = !action;
    this.#action.textContent = action ?? "";
    this.#tokenForm.hidden = !askToken;
    if (askToken) this.#token.focus();
  }

  get video() {
    return this.#video;
  }

  /** @param {string} detail */
  setDetail(detail) {
    this.#detail.textContent = detail;
  }

  /**
   * Plays a stream; where the browser holds sound back, plays it silent and offers to hear it.
   * @param {MediaStream} stream
   */
  async play(stream) {
    this.#frame.dataset.picture = "false";
    this.#video.hidden = false;
    this.#video.srcObject = stream;
    const shown = () => {
      if (this.#video.srcObject !== stream) return;
      this.#frame.dataset.picture = "true";
      this.dispatchEvent(new Event("frame"));
    };
    // Older browsers do not tell of single pictures; there the beginning of play has to do.
    const video = /** @type {HTMLVideoElement & {requestVideoFrameCallback?: (shown: () => void) => void}} */ (this.#video);
    if (video.requestVideoFrameCallback) video.requestVideoFrameCallback(shown);
    else video.addEventListener("playing", shown, { once: true });
    try {
      await this.#video.play();
    } catch (error) {
      if (!(error instanceof DOMException) || error.name !== "NotAllowedError") return; // replaced meanwhile
      this.#setQuiet({ blocked: true });
      await this.#video.play().catch(() => {}); // replaced meanwhile
      this.dispatchEvent(new Event("blocked"));
    }
  }

  /** Back to the poster. */
  clear() {
    this.#frame.dataset.picture = "false";
    this.#video.srcObject = null;
    this.#video.hidden = true;
    this.setSpeaking(false);
    this.#setQuiet({ blocked: false });
  }

  /**
   * Whether the visitor's own voice comes back, which is silent unless wanted.
   * @param {boolean} mirrored
   */
  setMirrored(mirrored) {
    this.#setQuiet({ mirrored });
  }

  toggleWide() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.#frame.parentElement?.requestFullscreen?.().catch(() => {}); // refused inside some frames
  }

  #unblock() {
    this.#setQuiet({ blocked: false });
    this.#video.play().catch(() => this.#setQuiet({ blocked: true }));
  }

  /** @param {Partial<{chosen: boolean, mirrored: boolean, blocked: boolean}>} change */
  #setQuiet(change) {
    Object.assign(this.#quiet, change);
    const { chosen, mirrored, blocked } = this.#quiet;
    this.#video.muted = chosen || mirrored || blocked;
    this.#video.volume = Number(this.#volume.value) / 100;
    this.#hear.hidden = !blocked || mirrored;
    this.#silence.disabled = mirrored;
    this.#volume.disabled = mirrored;
    this.#silence.setAttribute("aria-pressed", String(chosen));
    element("silence-icon", SVGUseElement).setAttribute("href", chosen || mirrored ? "#i-silent" : "#i-sound");
  }

  /**
   * @param {number} width
   * @param {number} height
   */
  #fit(width, height) {
    if (width > 0 && height > 0) document.documentElement.style.setProperty("--aspect", String(width / height));
  }
}
