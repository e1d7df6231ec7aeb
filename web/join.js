/** The participant's page: take a seat, speak with its face, see the room and hear all others. `?room=NAME&seat=NAME`. */

import { element, made } from "./page/element.js";
import { readSettings } from "./page/settings.js";
import { Rooms } from "./room/rooms.js";
import { Screen } from "./room/screen.js";

const settings = readSettings(location);
const rooms = new Rooms(new URL("../", document.baseURI), settings.token);
const query = new URL(location.href).searchParams;
const seats = element("seats", HTMLSelectElement);
const join = element("join", HTMLButtonElement);
const mute = element("mute", HTMLButtonElement);
const hand = element("hand", HTMLButtonElement);
/** @type {{screen: Screen, microphone: MediaStreamTrack, seat: string} | null} */
let sitting = null;
let asking = false;
/** @type {string} */
let room = query.get("room") ?? "";

/** @param {string} state @param {string} words */
function tell(state, words) {
  element("screen", HTMLElement).dataset.state = state;
  element("light", HTMLElement).textContent = words;
}

async function sit() {
  if (asking) return;
  asking = true;
  try {
    await takeSeat();
  } finally {
    asking = false;
  }
}

async function takeSeat() {
  let media;
  try {
    const audio = settings.raw ? { echoCancellation: false, noiseSuppression: false, autoGainControl: false } : true;
    media = await navigator.mediaDevices.getUserMedia({ audio });
  } catch {
    tell("refused", "The microphone may not be used. Allow it in the browser and try again.");
    return;
  }
  const [microphone] = media.getAudioTracks();
  const seat = seats.value;
  const url = rooms.url(`api/rooms/${encodeURIComponent(room)}/seats/${encodeURIComponent(seat)}/join`);
  const options = { token: settings.token, microphone, codec: settings.codec };
  const screen = new Screen(element("video", HTMLVideoElement), url, options, tell);
  sitting = { screen, microphone, seat };
  window.liveanchor = { screen };
  screen.open();
  showSitting();
}

function leave() {
  sitting?.screen.close();
  sitting?.microphone.stop();
  sitting = null;
  tell("waiting", "You have left");
  showSitting();
}

function showSitting() {
  join.textContent = sitting ? "Leave" : "Join with microphone";
  join.classList.toggle("running", sitting !== null);
  seats.disabled = sitting !== null;
  for (const button of [mute, hand]) button.disabled = sitting === null;
  const muted = sitting !== null && !sitting.microphone.enabled;
  mute.setAttribute("aria-pressed", String(muted));
  mute.textContent = muted ? "Unmute" : "Mute";
}

/** @param {any} state */
function show(state) {
  element("title", HTMLElement).textContent = state.title || state.room;
  const free = state.seats.filter((seat) => seat.source === "mic" && (!seat.occupied || seat.seat === sitting?.seat));
  if (!sitting && free.map((seat) => seat.seat).join() !== [...seats.options].map((o) => o.value).join()) {
    const chosen = seats.value || query.get("seat");
    seats.replaceChildren(...free.map((s) => Object.assign(made("option", "", s.name || s.seat), { value: s.seat })));
    if (free.some((seat) => seat.seat === chosen)) seats.value = chosen ?? "";
  }
  join.disabled = !sitting && free.length === 0;
  const own = state.seats.find((seat) => seat.seat === sitting?.seat);
  element("floor", HTMLElement).textContent = own ? floorWords(own, state) : free.length ? "" : "No microphone seat of this room is free.";
  element("level", HTMLElement).dataset.level = String(own ? Math.min(10, Math.round(own.level * 40)) : 0);
  hand.setAttribute("aria-pressed", String(Boolean(own?.hand)));
  hand.hidden = state.floor !== "moderated";
}

/** @param {any} own @param {any} state */
function floorWords(own, state) {
  if (own.muted) return "The moderator has muted you.";
  if (own.heard) return own.speaking ? "You are speaking." : "You have the floor.";
  return own.hand ? `Your hand is up, number ${state.hands.indexOf(own.seat) + 1}.` : "Raise your hand to speak.";
}

join.addEventListener("click", () => (sitting ? leave() : sit()));
mute.addEventListener("click", () => {
  if (!sitting) return;
  sitting.microphone.enabled = !sitting.microphone.enabled;
  showSitting();
});
hand.addEventListener("click", () => {
  if (!sitting) return;
  const raised = hand.getAttribute("aria-pressed") === "true";
  rooms.act(room, `seats/${encodeURIComponent(sitting.seat)}/${raised ? "lower" : "hand"}`).catch(() => {});
});
addEventListener("pagehide", () => sitting?.screen.close());
if (!room) room = (await rooms.list().catch(() => []))[0]?.room ?? "";
if (room) rooms.follow(room, show, (words) => sitting || tell("waiting", words || "Choose a seat and join"), new AbortController().signal);
else tell("refused", "There is no room");
