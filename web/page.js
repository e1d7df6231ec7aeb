/** The demo page: makes the parts and joins them. The only place that knows all of them. */

import { LiveAnchorClient } from "./client.js";
import { Booth } from "./page/booth.js";
import { Captions } from "./page/captions.js";
import { element } from "./page/element.js";
import { listenForKeys } from "./page/keys.js";
import { Lobby } from "./page/lobby.js";
import { Microphone } from "./page/microphone.js";
import { clockWords, narrate } from "./page/narrator.js";
import { Panel } from "./page/panel.js";
import { Picker } from "./page/picker.js";
import { Prompter } from "./page/prompter.js";
import { keepToken, readSettings } from "./page/settings.js";
import { Show } from "./page/show.js";
import { Stage } from "./page/stage.js";

const TICK_MS = 250;

class Page {
  #settings = readSettings(location);
  #client = new LiveAnchorClient({ server: document.baseURI, token: this.#settings.token });
  #stage = new Stage();
  #picker = new Picker(this.#client.api);
  #prompter = new Prompter(this.#client.api);
  #lobby = new Lobby(this.#client.api, this.#picker, this.#prompter, this.#stage);
  #microphone = new Microphone({ raw: this.#settings.raw });
  #booth = new Booth(this.#microphone);
  #panel = new Panel();
  #captions = new Captions();
  #show = new Show(this.#client, this.#microphone, () => this.#wish());
  #start = element("start", HTMLButtonElement);
  #liveSinceMs = 0;
  #retryAtMs = 0;

  constructor() {
    this.#joinClient();
    this.#joinControls();
    setInterval(() => this.#tick(), TICK_MS);
    window.liveanchor = this.#facts();
  }

  async open() {
    await this.#lobby.open(this.#settings.avatar);
    if (this.#settings.start && this.#wish()) this.#toggle();
  }

  /** What a session would be started with, or null while none can be. */
  #wish() {
    const { avatar } = this.#lobby;
    if (!avatar) return null;
    const { codec, canvas, badge, jitterMs } = this.#settings;
    return { avatar: avatar.id, codec, canvas, badge, jitterMs, deviceId: this.#booth.deviceId };
  }

  /** Looked at by tests and by curious people. */
  #facts() {
    const [client, show, failure] = [this.#client, this.#show, () => this.#failure()];
    return {
      client,
      get state() {
        return show.state;
      },
      get session() {
        return show.session;
      },
      get failure() {
        return failure();
      },
    };
  }

  #failure() {
    return this.#show.failure ?? this.#client.failure ?? (this.#show.running ? null : this.#lobby.failure);
  }

  #joinClient() {
    const client = this.#client;
    client.watch(this.#stage.video);
    on(client, "stream", (stream) => this.#stage.play(stream));
    on(client, "snapshot", (snapshot) => this.#panel.addSnapshot(snapshot));
    on(client, "event", ({ event }) => this.#panel.addEvent(event));
    on(client, "stats", (figures) => this.#panel.addFigures(figures));
    on(client, "speaking", (speaking) => this.#stage.setSpeaking(speaking));
    on(client, "state", ({ state, retryInMs }) => {
      if (state === "live") {
        this.#liveSinceMs = performance.now();
        this.#panel.begin(this.#show.source);
      }
      if (state === "idle" || state === "failed") this.#stage.clear();
      this.#lobby.recount();
      this.#retryAtMs = performance.now() + (retryInMs ?? 0);
    });
    on(this.#stage, "frame", () => this.#show.noteFrame());
    addEventListener("pagehide", () => this.#show.stop());
  }

  #joinControls() {
    on(this.#show, "change", () => this.#render());
    on(this.#show, "line", ({ line, seconds }) => {
      this.#prompter.mark(line?.sampleId ?? null, seconds);
      this.#captions.show(line?.text ?? null, seconds);
    });
    on(this.#show, "toast", (words) => sayToast(words));
    on(this.#lobby, "change", () => this.#render());
    on(this.#stage, "action", () => this.#act());
    on(this.#stage, "press", () => !this.#start.disabled && this.#toggle());
    on(this.#stage, "token", (token) => this.#enterToken(token));
    on(this.#picker, "choose", () => this.#changeFace());
    on(this.#prompter, "line", (line) => this.#speak(line));
    on(this.#booth, "device", (deviceId) => this.#show.changeMicrophone(deviceId));
    on(this.#booth, "hear", () => this.#render());
    element("switch", HTMLDivElement).addEventListener("change", (event) => {
      const { value } = /** @type {HTMLInputElement} */ (event.target);
      this.#changeSource(value === "mirror" ? "mirror" : "agent");
    });
    this.#start.addEventListener("click", () => this.#toggle());
    element("interrupt", HTMLButtonElement).addEventListener("click", () => this.#show.interrupt());
    listenForKeys({
      " ": () => !this.#start.disabled && this.#toggle(),
      m: () => this.#booth.toggleMute(),
      i: () => this.#show.interrupt(),
      c: () => this.#captions.toggle(),
      f: () => this.#stage.toggleWide(),
      p: () => this.#panel.toggle(),
    });
  }

  #toggle() {
    sayToast("");
    this.#lobby.forgive();
    if (this.#show.running) this.#show.stop();
    else this.#show.start(this.#show.source === "agent" ? this.#prompter.opening() : null);
  }

  /** @param {import("./page/prompter.js").Line} line */
  #speak(line) {
    sayToast("");
    this.#lobby.forgive();
    this.#show.speak(line);
  }

  /** The button in the lower third. */
  #act() {
    if (this.#show.state === "reconnecting") this.#client.retryNow();
    else if (this.#failure()?.action === "reload") location.reload();
    else if (this.#lobby.closed) this.#lobby.open(this.#settings.avatar);
    else this.#toggle();
  }

  /** @param {string} token */
  #enterToken(token) {
    keepToken(token);
    this.#client.api.token = token;
    this.#show.stop();
    this.#lobby.open(this.#settings.avatar);
  }

  /** @param {"agent" | "mirror"} source */
  #changeSource(source) {
    this.#show.source = source;
    if (source === "mirror") this.#booth.refresh();
    this.#show.restart();
  }

  #changeFace() {
    if (this.#show.state === "failed") this.#show.stop();
    this.#show.restart();
  }

  #render() {
    const { state, source, running } = this.#show;
    const startable = this.#wish() !== null;
    const words = narrate(state, this.#failure(), this.#picker.chosen?.title ?? "liveanchor", source);
    this.#stage.setState(state === "idle" && !startable ? "failed" : state, words.tally);
    this.#stage.say(words);
    this.#stage.setMirrored(source === "mirror" && !this.#booth.hearsMyself);
    this.#booth.setOpen(running && this.#microphone.track !== null);
    this.#renderStart(startable);
    element("interrupt", HTMLButtonElement).hidden = !(state === "live" && source === "agent" && this.#client.speaking);
    element("talk-agent", HTMLDivElement).hidden = source !== "agent";
    element("talk-mirror", HTMLDivElement).hidden = source !== "mirror";
    announce("spoken-status", words.status);
    announce("spoken-alert", words.alert);
    this.#tick();
  }

  /** @param {boolean} startable */
  #renderStart(startable) {
    const { running, source } = this.#show;
    const opening = source === "mirror" ? "Start talking" : this.#prompter.opening() ? "Play a sample" : "Start";
    const picture = running ? "#i-stop" : source === "mirror" ? "#i-mic" : "#i-play";
    element("start-words", HTMLSpanElement).textContent = running ? "Stop" : opening;
    element("start-icon", SVGUseElement).setAttribute("href", picture);
    this.#start.classList.toggle("running", running);
    this.#start.disabled = !running && !startable;
  }

  /** What changes with time alone: the clock beside the tally and the countdown to the next attempt. */
  #tick() {
    const now = performance.now();
    if (this.#show.state === "live") {
      this.#stage.setTally(`Live ${clockWords((now - this.#liveSinceMs) / 1000)}`);
    } else if (this.#show.state === "reconnecting" && this.#client.failure && this.#retryAtMs > now) {
      const seconds = Math.ceil((this.#retryAtMs - now) / 1000);
      this.#stage.setDetail(`${this.#client.failure.detail} Next try in ${seconds} s.`);
    }
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

/** @param {string} words */
function sayToast(words) {
  element("toast", HTMLParagraphElement).textContent = words;
}

/**
 * @param {string} id of a live region
 * @param {string} words said once, when they change
 */
function announce(id, words) {
  const region = element(id, HTMLParagraphElement);
  if (region.textContent !== words) region.textContent = words;
}

new Page().open();
