/** The live figures: turns what server and browser report into charts and numbers. Can be folded away. */

import { element, made } from "./element.js";
import { History, KINDS } from "./history.js";
import { Lane } from "./lane.js";
import { recall, remember } from "./settings.js";
import { Timeline } from "./timeline.js";

/** The server's stages in the order sound passes them, with the words a visitor reads. */
const STAGES = [
  ["capture_gate", "Detect voice"],
  ["gate_window", "Gather sound"],
  ["window_queue", "Hand over"],
  ["queue_render", "Draw the mouth"],
  ["render_compose", "Pace and blend"],
  ["compose_encode", "Encode"],
  ["encode_send", "Send"],
];
const KIND_WORDS = { voiced: "speaking", idle: "idle", held: "held", late: "late" };
const NOTHING = { p50: null, p95: null };

export class Panel {
  #floor = element("floor", HTMLElement);
  #fold = element("fold", HTMLButtonElement);
  #body = element("panel-body", HTMLDivElement);
  #brief = element("panel-brief", HTMLParagraphElement);
  #key = element("lane-key", HTMLOListElement);
  #kinds = element("kinds", HTMLUListElement);
  #figures = element("figures", HTMLDListElement);
  #lane = new Lane(element("lane", HTMLCanvasElement));
  #timeline = new Timeline(element("timeline", HTMLCanvasElement));
  #history = new History();
  #mirror = false;
  /** @type {import("../client/stats.js").Figures | null} */
  #browser = null;

  constructor() {
    this.#fold.addEventListener("click", () => this.toggle());
    const small = matchMedia("(max-width: 820px)").matches;
    this.#setFolded(recall("figures") ? recall("figures") === "folded" : small);
    this.#render();
  }

  toggle() {
    const folded = this.#floor.dataset.figures !== "folded";
    remember("figures", folded ? "folded" : "open");
    this.#setFolded(folded);
  }

  /**
   * A new session begins.
   * @param {string} source
   */
  begin(source) {
    this.#mirror = source === "mirror";
    this.#history.clear();
    this.#browser = null;
    const title = this.#mirror ? "From microphone to lip, by stage" : "From sound to lip, by stage";
    element("lane-title", HTMLHeadingElement).textContent = title;
    this.#render();
  }

  /** @param {import("./history.js").Snapshot} snapshot */
  addSnapshot(snapshot) {
    this.#history.push(snapshot);
    this.#render();
  }

  /** @param {string} name */
  addEvent(name) {
    this.#history.mark(name);
  }

  /** @param {import("../client/stats.js").Figures} figures */
  addFigures(figures) {
    this.#browser = figures;
  }

  /** @param {boolean} folded */
  #setFolded(folded) {
    this.#floor.dataset.figures = folded ? "folded" : "open";
    this.#body.hidden = folded;
    this.#fold.setAttribute("aria-expanded", String(!folded));
    this.#fold.setAttribute("aria-label", folded ? "Show the figures" : "Fold the figures away");
    this.#fold.title = folded ? "Show the figures (P)" : "Fold away (P)";
  }

  /**
   * What lies before the server's stamps, its stages, then what the browser knows of the way to the screen.
   * @param {import("./history.js").Spread} served
   */
  #stages(served) {
    const told = this.#history.last?.stages_ms ?? {};
    const stages = STAGES.map(([key, name]) => ({ name, ...(told[key] ?? NOTHING) }));
    const stamped = stages.reduce((sum, { p50 }) => sum + (p50 ?? 0), 0);
    const known = served.p50 !== null;
    const { rttMs = null, jitterBufferMs = null, decodeMs = null } = this.#browser ?? {};
    const network = rttMs === null ? null : this.#mirror ? rttMs : rttMs / 2;
    const screen = jitterBufferMs === null ? null : jitterBufferMs + (decodeMs ?? 0);
    const before = served.p50 === null ? null : Math.max(0, served.p50 - stamped);
    stages.unshift({ name: "Listen ahead", p50: before, p95: null });
    stages.push({ name: "Network", p50: known ? network : null, p95: null });
    stages.push({ name: "Browser", p50: known ? screen : null, p95: null });
    return stages;
  }

  #render() {
    const served = this.#history.last?.mic_to_lip_ms ?? NOTHING;
    const stages = this.#stages(served);
    const beyond = stages.slice(-2).reduce((sum, { p50 }) => sum + (p50 ?? 0), 0);
    const whole = { p50: plus(served.p50, beyond), p95: plus(served.p95, beyond) };
    this.#lane.show(stages, whole);
    this.#timeline.show(this.#history.entries);
    this.#key.replaceChildren(...stages.map(keyItem));
    this.#kinds.replaceChildren(...KINDS.map((kind) => kindItem(kind, this.#history.totals[kind])));
    this.#renderFigures(served);
    this.#renderBrief(whole.p50);
  }

  /** @param {number | null} wholeMs */
  #renderBrief(wholeMs) {
    const { last } = this.#history;
    const from = this.#mirror ? "Microphone to lip" : "Sound to lip";
    if (!last) return this.#brief.replaceChildren("Nothing live yet");
    const rate = made("span", "brief-rate", `, ${number(last.fps, 0)} pictures a second`);
    this.#brief.replaceChildren(`${from} ${number(wholeMs, 0)} ms`, rate);
  }

  /** @param {import("./history.js").Spread} served */
  #renderFigures(served) {
    const { last } = this.#history;
    const browser = this.#browser;
    const missed = this.#history.missedPercent;
    /** @type {[string, number | null | undefined, string, number?][]} */
    const rows = [
      ["Server, median", served.p50, "ms"],
      ["Server, 95 %", served.p95, "ms"],
      ["A/V offset, sent", last?.av_offset_ms, "ms", 1],
      ["A/V offset, played", browser?.avOffsetMs, "ms"],
      ["Round trip", browser?.rttMs, "ms", 1],
      ["Pictures", browser?.fps, "a second", 1],
      ["Held or late", missed, "%", 1],
      ["Bitrate", browser?.bitrateKbps, "kbit/s"],
    ];
    this.#figures.replaceChildren(
      ...rows.map(([name, value, unit, digits = 0]) => {
        const group = document.createElement("div");
        const term = made("dt", "", name);
        const definition = made("dd", "", number(value, digits));
        definition.append(made("small", "", unit));
        group.append(term, definition);
        return group;
      }),
    );
  }
}

/**
 * @param {{name: string, p50: number | null, p95: number | null}} stage
 * @param {number} i
 */
function keyItem({ name, p50, p95 }, i) {
  const item = document.createElement("li");
  item.append(made("span", `swatch swatch-${i + 1}`), made("span", "", name));
  item.append(made("span", "mid-figure", number(p50, 0)), made("span", "late-figure", number(p95, 0)));
  return item;
}

/**
 * @param {"voiced" | "idle" | "held" | "late"} kind
 * @param {number} count
 */
function kindItem(kind, count) {
  const item = document.createElement("li");
  item.append(made("span", `swatch swatch-${kind}`), `${KIND_WORDS[kind]} `, made("b", "", count.toLocaleString("en")));
  return item;
}

/**
 * @param {number | null} value
 * @param {number} more
 */
function plus(value, more) {
  return value === null ? null : value + more;
}

/**
 * @param {number | null | undefined} value
 * @param {number} digits
 */
function number(value, digits) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
}
