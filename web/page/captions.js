/** What is being said, in words on the picture. Lays a text over its known length; has no word times to go by. */

import { element } from "./element.js";
import { recall, remember } from "./settings.js";

const LINE_CHARS = 76;
/** A full stop is a pause about as long as this many letters. */
const PAUSE_CHARS = 7;
const STEP_MS = 100;

/** @typedef {{text: string, untilS: number}} Phrase */

export class Captions {
  #line = element("caption", HTMLParagraphElement);
  #button = element("captions", HTMLButtonElement);
  /** @type {Phrase[]} */
  #phrases = [];
  #startedMs = 0;
  /** @type {number | undefined} */
  #timer;
  #wanted = recall("captions") === "on";

  constructor() {
    this.#button.addEventListener("click", () => this.toggle());
    this.#render();
  }

  toggle() {
    this.#wanted = !this.#wanted;
    remember("captions", this.#wanted ? "on" : "off");
    this.#render();
  }

  /**
   * A line begins to be spoken now, or, without one, ends.
   * @param {string | null} text
   * @param {number} seconds
   */
  show(text, seconds) {
    clearInterval(this.#timer);
    this.#phrases = text ? phrases(text, seconds) : [];
    this.#startedMs = performance.now();
    if (text) this.#timer = setInterval(() => this.#render(), STEP_MS);
    this.#render();
  }

  #render() {
    const elapsedS = (performance.now() - this.#startedMs) / 1000;
    const phrase = this.#wanted ? this.#phrases.find(({ untilS }) => elapsedS < untilS) : undefined;
    this.#line.hidden = !phrase;
    if (this.#line.textContent !== (phrase?.text ?? "")) this.#line.textContent = phrase?.text ?? "";
    this.#button.setAttribute("aria-pressed", String(this.#wanted));
  }
}

/**
 * Cuts a text into lines to read and gives each its share of the time, by letters and pauses.
 * @param {string} text
 * @param {number} seconds
 * @returns {Phrase[]}
 */
export function phrases(text, seconds) {
  const sentences = text.replace(/\s+/g, " ").trim().match(/[^.!?]+[.!?]*\s*/g) ?? [];
  const lines = sentences.flatMap((sentence) => folded(sentence.trim()));
  const weights = lines.map((line) => line.length + (/[.!?]$/.test(line) ? PAUSE_CHARS : 0));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  let passed = 0;
  return lines.map((line, i) => {
    passed += weights[i];
    return { text: line, untilS: (passed / all) * seconds };
  });
}

/**
 * A sentence in pieces of at most LINE_CHARS, of about equal length, cut between words.
 * @param {string} sentence
 * @returns {string[]}
 */
function folded(sentence) {
  const pieces = Math.ceil(sentence.length / LINE_CHARS);
  const target = sentence.length / pieces;
  /** @type {string[]} */
  const lines = [];
  for (const word of sentence.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length / 2 < target) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}
