/** The show itself: starts and stops sessions, gives the anchor its lines, and says in words what is going on. */

import { Failure } from "../client/failure.js";
import { SessionFacts } from "./session.js";

/** @typedef {import("./prompter.js").Line} Line */

/**
 * Fires `change` when anything a control shows has changed, `toast` (detail string) for what went wrong beside the
 * line, and `line` (detail {line: Line | null, seconds: number}) when the anchor begins or ends a line.
 */
export class Show extends EventTarget {
  /** @type {SessionFacts | null} */
  session = null;
  /** @type {"agent" | "mirror"} */
  source = "agent";
  /** A failure before a connection was tried, such as a refused microphone. @type {Failure | null} */
  failure = null;
  #client;
  #microphone;
  #wish;
  #opening = false;
  #run = 0;
  /** What to say as soon as the connection stands. @type {Line | null} */
  #next = null;
  /** What is being said, or about to be. @type {Line | null} */
  #line = null;

  /**
   * @param {import("../client.js").LiveAnchorClient} client
   * @param {import("./microphone.js").Microphone} microphone
   * @param {() => {avatar: string, deviceId: string, codec: "vp8" | "h264" | null, canvas: number | null,
   *   badge: string | null, jitterMs: number} | null} wish what to start with; null while nothing can be started
   */
  constructor(client, microphone, wish) {
    super();
    this.#client = client;
    this.#microphone = microphone;
    this.#wish = wish;
    client.addEventListener("state", () => this.#onState());
    client.addEventListener("speaking", () => this.#onSpeaking());
    microphone.addEventListener("lost", (event) => this.#onMicrophoneLost(/** @type {CustomEvent} */ (event).detail));
  }

  /** @returns {import("../client.js").State} */
  get state() {
    if (this.#opening) return "connecting";
    return this.failure ? "failed" : this.#client.state;
  }

  /** Whether stop, rather than start, is what the button does. */
  get running() {
    return this.state !== "idle" && this.state !== "failed";
  }

  /**
   * Goes live. With source "agent" and a line, the line is spoken as soon as the connection stands.
   * @param {Line | null} [line]
   */
  async start(line = null) {
    const wish = this.#wish();
    if (!wish) return;
    this.#run += 1;
    const run = this.#run;
    this.failure = null;
    this.session = new SessionFacts(wish.avatar, this.source, performance.now());
    this.#next = line;
    line?.load().catch(() => {}); // fetched while connecting; asked for again when spoken
    try {
      const microphone = this.source === "mirror" ? await this.#openMicrophone(wish.deviceId) : null;
      if (run !== this.#run) return this.#dropMicrophone();
      const { avatar, codec, canvas, badge, jitterMs } = wish;
      await this.#client.connect({ avatar, codec, canvas, badge, jitterMs, source: this.source, microphone });
    } catch (error) {
      if (run === this.#run) this.#fail(Failure.from(error));
    }
  }

  stop() {
    this.#run += 1;
    this.#opening = false;
    this.#next = null;
    this.failure = null;
    this.#client.close();
    this.#microphone.close();
    this.#emitLine(null, 0);
    this.#changed();
  }

  /** With other wishes (another face, another source): start anew if something runs; a line is begun again. */
  async restart() {
    if (!this.running) return this.#changed();
    const line = this.source === "agent" ? (this.#next ?? this.#line) : null;
    this.#client.close();
    if (this.source !== "mirror") this.#microphone.close();
    await this.start(line);
  }

  /**
   * Speaks a line now: what is being said stops, and a session is started where none runs. While a connection is
   * being made, the last line asked for is spoken first.
   * @param {Line} line
   */
  async speak(line) {
    if (!this.running) return this.start(line);
    if (this.state !== "live") {
      this.#next = line;
      return;
    }
    const run = this.#run;
    this.#line = line;
    try {
      const speech = await line.load();
      if (run !== this.#run) return;
      const { seconds } = await this.#client.speech(speech, { now: true });
      this.#emitLine(line, seconds);
    } catch (error) {
      if (run === this.#run) this.#toast(error);
    }
  }

  interrupt() {
    if (this.state !== "live") return;
    this.#client.interrupt().catch((error) => this.#toast(error));
  }

  /**
   * Another microphone in a running session.
   * @param {string} deviceId
   */
  async changeMicrophone(deviceId) {
    if (!this.#microphone.track) return;
    try {
      await this.#client.replaceMicrophone(await this.#microphone.open(deviceId));
    } catch (error) {
      this.#toast(error);
    }
  }

  /** The first picture of the stream is on screen. */
  noteFrame() {
    this.session?.noteFrame(performance.now());
  }

  /** @param {string} deviceId */
  async #openMicrophone(deviceId) {
    this.#opening = true;
    this.#changed();
    try {
      return this.#microphone.track ?? (await this.#microphone.open(deviceId));
    } finally {
      this.#opening = false;
    }
  }

  /** Permission came after the visitor had changed their mind. */
  #dropMicrophone() {
    if (this.source !== "mirror" || !this.running) this.#microphone.close();
  }

  #onState() {
    const { state, sessionId } = this.#client;
    this.session?.noteState(state, sessionId);
    if (state !== "live") this.#emitLine(null, 0);
    if (state === "failed") this.#microphone.close();
    this.#changed();
    if (state !== "live" || !this.#next) return;
    const line = this.#next;
    this.#next = null;
    this.speak(line);
  }

  #onSpeaking() {
    const { speaking } = this.#client;
    if (speaking) this.session?.noteSpeech(performance.now());
    else this.#emitLine(null, 0);
    this.#changed();
  }

  /** @param {Failure} failure */
  #onMicrophoneLost(failure) {
    if (this.source !== "mirror" || !this.running) return;
    this.#client.close();
    this.#fail(failure);
  }

  /** @param {Failure} failure */
  #fail(failure) {
    this.failure = failure;
    this.#microphone.close();
    this.#changed();
  }

  /**
   * @param {Line | null} line
   * @param {number} seconds
   */
  #emitLine(line, seconds) {
    this.#line = line;
    this.dispatchEvent(new CustomEvent("line", { detail: { line, seconds } }));
  }

  /** @param {unknown} error something beside the line that went wrong */
  #toast(error) {
    this.dispatchEvent(new CustomEvent("toast", { detail: Failure.from(error).message }));
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
