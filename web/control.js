/** The control room: the programme, its seats, levels, floor, layout and health. `?room=NAME`. */

import { SeatCard } from "./control/seat-card.js";
import { element, made } from "./page/element.js";
import { readSettings } from "./page/settings.js";
import { Rooms } from "./room/rooms.js";
import { Screen } from "./room/screen.js";

const LAYOUTS = { grid: "Grid", focus: "Focus", "side-by-side": "Side by side", solo: "Solo" };
const MODES = { open: "Open", moderated: "Moderated", queue: "In turn" };
const settings = readSettings(location);
const rooms = new Rooms(new URL("../", document.baseURI), settings.token);
/** @type {Map<string, SeatCard>} */
const cards = new Map();
/** @type {{frames: number, at: number} | null} */
let last = null;
let fps = 0;
let layout = "grid";
const room = new URL(location.href).searchParams.get("room") ?? (await rooms.list().catch(() => []))[0]?.room ?? "";

/** @param {Promise<unknown>} doing */
async function attempt(doing) {
  const trouble = element("trouble", HTMLElement);
  try {
    await doing;
    trouble.textContent = "";
  } catch (error) {
    trouble.textContent = error instanceof Error ? error.message : String(error);
  }
}

/** @param {string} id @param {Record<string, string>} words @param {(key: string) => void} choose */
function choices(id, words, choose) {
  const buttons = Object.entries(words).map(([key, word]) => {
    const button = Object.assign(/** @type {HTMLButtonElement} */ (made("button", "", word)), { type: "button" });
    button.dataset.key = key;
    button.addEventListener("click", () => choose(key));
    return button;
  });
  element(id, HTMLElement).replaceChildren(...buttons);
}

/** @param {string} id @param {string} chosen */
function press(id, chosen) {
  for (const button of element(id, HTMLElement).children) {
    button.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (button).dataset.key === chosen));
  }
}

/** @param {any} seat */
function cardOf(seat) {
  let card = cards.get(seat.seat);
  if (!card) {
    const path = `seats/${encodeURIComponent(seat.seat)}`;
    card = new SeatCard(
      (action) => attempt(rooms.act(room, `${path}/${action}`)),
      (text) => attempt(rooms.speak(room, seat.seat, text)),
      () => attempt(rooms.act(room, "layout", { layout: layout === "grid" ? "focus" : layout, featured: [seat.seat] })),
    );
    cards.set(seat.seat, card);
    element("seats", HTMLElement).append(card.node);
  }
  return card;
}

/** @param {any} state */
function show(state) {
  layout = state.layout;
  element("title", HTMLElement).textContent = state.title || state.room;
  press("layouts", state.layout);
  press("modes", state.floor);
  for (const seat of state.seats) cardOf(seat).show(seat, state.floor);
  const waiting = [...state.turns.map((seat) => `${seat} in turn`), ...state.hands.map((seat) => `${seat} raises a hand`)];
  element("queue", HTMLElement).replaceChildren(...waiting.map((words) => made("li", "", words)));
  const at = performance.now();
  if (last && at - last.at > 1000) {
    fps = ((state.frames - last.frames) * 1000) / (at - last.at);
    last = null;
  }
  last ??= { frames: state.frames, at };
  const late = state.seats.reduce((sum, seat) => sum + seat.repeated, 0);
  element("health", HTMLElement).textContent =
    `${fps.toFixed(1)} fps · ${state.lay_ms.toFixed(1)} ms a frame to draw and mix · ${late} pictures late · ${state.viewers} watching`;
}

choices("layouts", LAYOUTS, (key) => attempt(rooms.act(room, "layout", { layout: key })));
choices("modes", MODES, (key) => attempt(rooms.act(room, "floor", { mode: key })));
if (room) {
  const video = element("video", HTMLVideoElement);
  const screen = new Screen(video, rooms.url(`whep/${encodeURIComponent(room)}`), settings, (state, words) => {
    element("screen", HTMLElement).dataset.state = state;
    element("light", HTMLElement).textContent = words;
  });
  window.liveanchor = { screen };
  screen.open();
  addEventListener("pagehide", () => screen.close());
  const trouble = (/** @type {string} */ words) => (element("trouble", HTMLElement).textContent = words);
  rooms.follow(room, show, trouble, new AbortController().signal);
} else {
  element("light", HTMLElement).textContent = "There is no room";
}
