/** One seat in the control room: who, level, and the buttons that act on it. */

import { made } from "../page/element.js";

const ACTIONS = [
  { on: "mute", off: "unmute", word: "Mute", undo: "Unmute", state: "muted" },
  { on: "grant", off: "revoke", word: "Give the floor", undo: "Take the floor", state: "granted" },
];

export class SeatCard {
  node = made("li", "seat");
  #name = made("p", "seat-name");
  #note = made("p", "note");
  #level = made("span", "");
  /** @type {Map<string, HTMLButtonElement>} */
  #buttons = new Map();
  #gain = document.createElement("input");
  #text = document.createElement("input");
  #form = document.createElement("form");
  /** @type {any} */
  #seat = null;

  /**
   * @param {(path: string) => void} act with a path below the seat
   * @param {(text: string) => void} speak
   * @param {() => void} feature put the seat into the focus
   */
  constructor(act, speak, feature) {
    const meter = made("span", "meter");
    meter.append(this.#level);
    const row = made("div", "row");
    for (const action of ACTIONS) {
      const button = this.#button(action.word, () => act(this.#seat?.[action.state] ? action.off : action.on));
      this.#buttons.set(action.state, button);
      row.append(button);
    }
    row.append(this.#button("Focus", feature), this.#button("Hush", () => act("interrupt")));
    Object.assign(this.#gain, { type: "range", min: "-30", max: "12", step: "1" });
    this.#gain.setAttribute("aria-label", "Gain");
    this.#gain.addEventListener("change", () => act(`gain?db=${this.#gain.value}`));
    Object.assign(this.#text, { type: "text", placeholder: "Type a line to speak", maxLength: 2000, required: true });
    this.#text.setAttribute("aria-label", "Line to speak");
    this.#form.className = "line";
    this.#form.append(this.#text, Object.assign(made("button", "", "Speak"), { type: "submit" }));
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      speak(this.#text.value);
      this.#text.value = "";
    });
    this.node.append(this.#name, this.#note, meter, this.#gain, row, this.#form);
  }

  /** @param {any} seat @param {string} mode the room's floor */
  show(seat, mode) {
    this.#seat = seat;
    this.node.dataset.speaking = String(seat.speaking);
    this.node.dataset.heard = String(seat.heard);
    this.#name.textContent = `${seat.name || seat.seat}${seat.hand ? ", hand up" : ""}`;
    this.#note.textContent = `${seat.source}${seat.occupied ? "" : ", nobody there"} · ${seat.gain_db.toFixed(0)} dB`;
    this.#level.dataset.level = String(Math.min(10, Math.round(seat.level * 40)));
    for (const action of ACTIONS) {
      const button = this.#buttons.get(action.state);
      if (!button) continue;
      button.textContent = seat[action.state] ? action.undo : action.word;
      button.setAttribute("aria-pressed", String(seat[action.state]));
      button.hidden = action.state === "granted" && mode !== "moderated";
    }
    if (document.activeElement !== this.#gain) this.#gain.value = String(seat.gain_db);
    this.#form.hidden = seat.source !== "speech";
  }

  /** @param {string} words @param {() => void} onClick */
  #button(words, onClick) {
    const button = Object.assign(/** @type {HTMLButtonElement} */ (made("button", "", words)), { type: "button" });
    button.addEventListener("click", onClick);
    return button;
  }
}
