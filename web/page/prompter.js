/** What the anchor is given to say: bundled samples, typed text, a recording. Hands it over as text or a Blob. */

import { element, icon, made } from "./element.js";

/** @typedef {import("../client/api.js").Sample} Sample */
/** @typedef {{text: string | null, load: () => Promise<Blob | string>, sampleId: string | null}} Line `text` if known */

/** Fires `line` (detail Line) when there is something to say. */
export class Prompter extends EventTarget {
  #samples = element("samples", HTMLUListElement);
  #form = element("say", HTMLFormElement);
  #text = element("say-text", HTMLTextAreaElement);
  #file = element("file", HTMLInputElement);
  #api;
  /** @type {Sample[]} */
  #list = [];
  /** @type {Map<string, Promise<Blob>>} */
  #fetched = new Map();

  /** @param {import("../client/api.js").Api} api */
  constructor(api) {
    super();
    this.#api = api;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#sayText();
    });
    this.#text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#sayText();
    });
    this.#file.addEventListener("change", () => this.#sayFile());
  }

  /** @param {import("../client/api.js").Capabilities} capabilities */
  show(capabilities) {
    this.#list = capabilities.samples;
    this.#samples.replaceChildren(...this.#list.map((sample) => this.#item(sample)));
    this.#form.hidden = capabilities.tts.length === 0;
    element("no-tts", HTMLParagraphElement).hidden = capabilities.tts.length > 0;
  }

  /** The line for a start without a choice, or null where the server has no samples. */
  opening() {
    return this.#list[0] ? this.#sampleLine(this.#list[0]) : null;
  }

  /**
   * Marks the sample being spoken, with its length as a moving line.
   * @param {string | null} sampleId
   * @param {number} [seconds]
   */
  mark(sampleId, seconds = 0) {
    for (const button of this.#samples.querySelectorAll("button")) {
      const current = button.dataset.sample === sampleId;
      button.setAttribute("aria-current", String(current));
      if (current) button.style.setProperty("--seconds", `${seconds}s`);
    }
  }

  focusText() {
    if (!this.#form.hidden) this.#text.focus();
  }

  /** @param {Sample} sample */
  #item(sample) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sample";
    button.dataset.sample = sample.id;
    button.append(icon("play"), made("span", "sample-title", sample.title));
    button.append(made("span", "sample-length", `${Math.round(sample.seconds)} s`));
    button.addEventListener("click", () => this.#emit(this.#sampleLine(sample)));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }

  /**
   * @param {Sample} sample
   * @returns {Line}
   */
  #sampleLine(sample) {
    const load = () => {
      const blob = this.#fetched.get(sample.id) ?? this.#api.blob(sample.url);
      this.#fetched.set(sample.id, blob);
      blob.catch(() => this.#fetched.delete(sample.id));
      return blob;
    };
    return { text: sample.text ?? null, load, sampleId: sample.id };
  }

  #sayText() {
    const text = this.#text.value.trim();
    if (!text) return this.#text.focus();
    this.#text.select();
    this.#emit({ text, load: async () => text, sampleId: null });
  }

  #sayFile() {
    const file = this.#file.files?.[0];
    this.#file.value = "";
    if (file) this.#emit({ text: null, load: async () => file, sampleId: null });
  }

  /** @param {Line} line */
  #emit(line) {
    this.dispatchEvent(new CustomEvent("line", { detail: line }));
  }
}
