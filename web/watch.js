/** The viewer's page: one feed, large. `?feed=NAME`; the address keeps what is watched. */

import { element, made } from "./page/element.js";
import { readSettings } from "./page/settings.js";
import { Screen } from "./room/screen.js";

const FIGURES_MS = 1000;
const server = new URL("../", document.baseURI);
const settings = readSettings(location);
const headers = settings.token ? { Authorization: `Bearer ${settings.token}` } : {};
const video = element("video", HTMLVideoElement);
const feeds = element("feeds", HTMLSelectElement);
const sound = element("sound", HTMLButtonElement);
/** @type {Screen | null} */
let screen = null;

/** @param {string} feed */
function watch(feed) {
  screen?.close();
  const url = new URL(location.href);
  url.searchParams.set("feed", feed);
  history.replaceState(null, "", url);
  element("title", HTMLElement).textContent = feed;
  screen = new Screen(video, new URL(`whep/${encodeURIComponent(feed)}`, server), settings, (state, words) => {
    element("screen", HTMLElement).dataset.state = state;
    element("light", HTMLElement).textContent = words;
    sound.hidden = !(state === "live" && video.muted);
  });
  window.liveanchor = { screen };
  screen.open();
}

async function listFeeds() {
  const response = await fetch(new URL("api/feeds", server), { headers }).catch(() => null);
  const found = response?.ok ? (await response.json()).feeds : [];
  const wanted = new URL(location.href).searchParams.get("feed");
  const names = [...new Set([...found.map((feed) => feed.feed), ...(wanted ? [wanted] : [])])];
  feeds.replaceChildren(...names.map((name) => Object.assign(made("option", "", name), { value: name })));
  if (wanted) feeds.value = wanted;
  return wanted ?? names[0];
}

async function showFigures() {
  const figures = await screen?.figures();
  const size = video.videoWidth ? `${video.videoWidth} × ${video.videoHeight}` : "";
  const parts = figures ? [size, figures.fps && `${figures.fps.toFixed(0)} fps`, figures.bitrateKbps && `${figures.bitrateKbps.toFixed(0)} kb/s`] : [];
  element("figures", HTMLElement).textContent = parts.filter(Boolean).join(" · ");
}

sound.addEventListener("click", () => {
  video.muted = false;
  sound.hidden = true;
});
feeds.addEventListener("change", () => watch(feeds.value));
feeds.addEventListener("pointerdown", listFeeds);
addEventListener("pagehide", () => screen?.close());
setInterval(showFigures, FIGURES_MS);
const first = await listFeeds();
if (first) watch(first);
else element("light", HTMLElement).textContent = "Nothing is on";
