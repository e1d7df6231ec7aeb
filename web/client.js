/**
 * LiveAnchorClient: a talking anchor in any web page. Owns connecting, coming back, speaking and the figures;
 * knows no document, so the caller puts `stream` into a video element of its own.
 *
 *   const client = new LiveAnchorClient({ server: "https://anchors.example/" });
 *   client.addEventListener("stream", ({ detail }) => { video.srcObject = detail; });
 *   await client.connect({ avatar: "ada", source: "agent" });
 *   await client.speech("Good evening.");
 */

import { Api } from "./client/api.js";
import { Attempts } from "./client/attempts.js";
import { Failure } from "./client/failure.js";
import { Link } from "./client/link.js";
import { Pulse } from "./client/pulse.js";
import { RenderWatch } from "./client/render.js";
import { SpeechStream } from "./client/speech-stream.js";

export { Failure } from "./client/failure.js";

const CONNECT_TIMEOUT_MS = 12_000;
const SNAPSHOT_MS = 1000;

/**
 * @typedef {"idle" | "connecting" | "live" | "reconnecting" | "failed"} State
 * @typedef {Omit<import("./client/link.js").LinkOptions, "iceServers"> &
 *   {iceServers?: RTCIceServer[]}} ConnectOptions `iceServers` are the server's own unless given
 * @typedef {{state: State, failure: Failure | null, retryInMs: number | null}} Change
 */

/**
 * Events (all CustomEvents): `state` (Change), `stream` (MediaStream), `snapshot` and `event` (objects from the
 * server, see docs/api.md), `stats` (Figures, twice a second), `speaking` (boolean).
 */
export class LiveAnchorClient extends EventTarget {
  /** @type {State} */
  state = "idle";
  /** @type {Failure | null} */
  failure = null;
  /** @type {MediaStream | null} */
  stream = null;
  /** @type {import("./client/stats.js").Figures | null} */
  figures = null;
  speaking = false;
  /** @type {Link | null} */
  #link = null;
  /** @type {ConnectOptions | null} */
  #options = null;
  /** Accepted and not yet finished, by the server's names. @type {Set<string>} */
  #speeches = new Set();
  #spokenMs = 0;
  /** Gives up what is being sent to a session that ends. */
  #sending = new AbortController();
  /** @type {Pulse | null} */
  #pulse = null;
  /** @type {RenderWatch | null} */
  #render = null;
  /** @type {Attempts | null} */
  #attempts = null;

  /** @param {{server: string | URL, token?: string | null}} options */
  constructor(options) {
    super();
    this.api = new Api(options);
  }

  /** The current session's id, or null. Whoever holds it may act on the session. */
  get sessionId() {
    return this.#link?.id ?? null;
  }

  /** Milliseconds of the last answered ping on the control channel, or null. */
  get pingMs() {
    return this.#link?.pingMs ?? null;
  }

  /**
   * Opens a session, waiting and trying again where that can help (server full, restarting, warming up).
   * @param {ConnectOptions} options
   * @returns {Promise<string | null>} the session's id; null if `close` or another `connect` came first
   * @throws {Failure} where trying again cannot help
   */
  async connect(options) {
    this.#end();
    this.#options = options;
    return (await this.#attempt("connecting")) ? this.sessionId : null;
  }

  /**
   * Speaks a sound file or a text (source "agent"): after what is being said, or at once with `now`.
   * @param {Blob | string} speech
   * @param {{now?: boolean}} [options]
   * @returns {Promise<{speech: string, seconds: number}>}
   * @throws {Failure}
   */
  async speech(speech, { now = false } = {}) {
    const session = this.#session();
    // Over HTTP and awaited: on the data channel the interrupt could overtake, or be overtaken by, the speech.
    if (now && this.speaking) await this.api.interrupt(session);
    const spoken = await this.api.speak(session, speech, this.#sending.signal);
    if (session !== this.sessionId) return spoken;
    this.#speeches.add(spoken.speech);
    this.#spokenMs = performance.now();
    this.#speak(true);
    return spoken;
  }

  /**
   * A way in for speech that is still being made (source "agent"): `write` samples, `end` each utterance, `close`.
   * @param {{rate: number, channels?: number}} format s16, interleaved
   * @returns {SpeechStream}
   * @throws {Failure}
   */
  speechStream(format) {
    return new SpeechStream(this.api.speechUrl(this.#session()), this.api.token, format);
  }

  /**
   * Goes on with another avatar, or another size, in the same session.
   * @param {{avatar?: string, canvas?: number}} wish
   * @throws {Failure}
   */
  async recast(wish) {
    await this.api.recast(this.#session(), wish);
    if (this.#options) this.#options = { ...this.#options, ...wish };
  }

  /** Falls silent at once; what is queued is dropped. Resolves when the server knows. */
  async interrupt() {
    const session = this.#session();
    if (!this.#link?.send({ type: "interrupt" })) await this.api.interrupt(session);
  }

  /**
   * Sends another microphone without a new session.
   * @param {MediaStreamTrack | null} microphone
   */
  async replaceMicrophone(microphone) {
    if (this.#options) this.#options = { ...this.#options, microphone };
    await this.#link?.replaceMicrophone(microphone);
  }

  /** While waiting to reconnect: try now. */
  retryNow() {
    this.#attempts?.retryNow();
  }

  /**
   * Tells the server, too, how long pictures take from being decoded to being shown.
   * @param {HTMLVideoElement} video where `stream` is shown
   */
  watch(video) {
    this.#render = new RenderWatch(video);
  }

  /** Hangs up. Idempotent. */
  close() {
    this.#end();
    this.#change("idle");
  }

  #session() {
    if (!this.sessionId) throw new Failure("session-ended");
    return this.sessionId;
  }

  #end() {
    this.#attempts?.end();
    this.#drop();
  }

  #drop() {
    this.#sending.abort();
    this.#sending = new AbortController();
    this.#pulse?.stop();
    this.#pulse = null;
    this.#link?.close();
    this.#link = null;
    this.#speeches.clear();
    this.#speak(false);
  }

  /** @param {import("./client/attempts.js").Beginning} state */
  #attempt(state) {
    const attempts = new Attempts({
      open: () => this.#open(attempts),
      drop: () => this.#drop(),
      tell: (told, failure, retryInMs) => this.#change(told, failure, retryInMs),
    });
    this.#attempts = attempts;
    return attempts.begin(state);
  }

  /** @param {Attempts} attempts */
  async #open(attempts) {
    const options = /** @type {ConnectOptions} */ (this.#options);
    const iceServers = options.iceServers ?? (await this.api.capabilities()).ice_servers ?? [];
    if (attempts.ended) return;
    const link = new Link(this.api, { ...options, iceServers });
    this.#link = link;
    link.addEventListener("stream", (event) => {
      this.stream = /** @type {CustomEvent<MediaStream>} */ (event).detail;
      this.dispatchEvent(new CustomEvent("stream", { detail: this.stream }));
    });
    link.addEventListener("message", (event) => this.#receive(/** @type {CustomEvent} */ (event).detail));
    await link.open(CONNECT_TIMEOUT_MS);
    if (attempts.ended) return;
    link.addEventListener("lost", () => this.#recover(link));
    this.#pulse = new Pulse(link, (figures) => this.#measure(figures), () => this.#recover(link));
    this.#change("live");
  }

  /** @param {Link} link the one that is lost */
  #recover(link) {
    if (link !== this.#link || this.state !== "live") return;
    this.#end();
    this.#attempt("reconnecting").catch(() => {}); // the state event has told it
  }

  /** @param {import("./client/stats.js").Figures} figures */
  #measure(figures) {
    figures.renderMs = this.#render?.take() ?? null;
    this.figures = figures;
    this.dispatchEvent(new CustomEvent("stats", { detail: figures }));
  }

  /** @param {{type: string, event?: string, speech?: string, speaking?: boolean}} message */
  #receive(message) {
    if (message.event === "playback_started") this.#speak(true);
    if (message.event === "playback_finished") {
      this.#speeches.delete(message.speech ?? "");
      if (this.#speeches.size === 0) this.#speak(false);
    }
    if (message.type === "snapshot") this.#believe(message.speaking === true);
    if (message.type === "snapshot" || message.type === "event") {
      this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
    }
  }

  /**
   * A snapshot repairs what a lost event left wrong, unless it may be older than the last speech.
   * @param {boolean} speaking
   */
  #believe(speaking) {
    if (!speaking && performance.now() - this.#spokenMs < SNAPSHOT_MS) return;
    if (!speaking) this.#speeches.clear();
    this.#speak(speaking);
  }

  /** @param {boolean} speaking */
  #speak(speaking) {
    if (speaking === this.speaking) return;
    this.speaking = speaking;
    this.dispatchEvent(new CustomEvent("speaking", { detail: speaking }));
  }

  /**
   * @param {State} state
   * @param {Failure | null} [failure]
   * @param {number | null} [retryInMs]
   */
  #change(state, failure = null, retryInMs = null) {
    this.state = state;
    this.failure = failure;
    this.dispatchEvent(new CustomEvent("state", { detail: { state, failure, retryInMs } }));
  }
}
