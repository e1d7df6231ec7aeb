/** One session with the server: a peer connection, its two data channels and the HTTP calls that belong to it. */

import { Failure } from "./failure.js";
import { candidateFragment } from "./fragment.js";
import { StatsReader } from "./stats.js";

const TRICKLE_BATCH_MS = 20;

/**
 * @typedef {object} LinkOptions
 * @property {string | null} [avatar]
 * @property {"mirror" | "agent" | "none"} source
 * @property {number | null} [canvas] pixels
 * @property {string | null} [badge] words in the corner of the picture, such as "AI"
 * @property {"vp8" | "h264" | null} [codec] the only video codec to offer; null: the browser's own order
 * @property {MediaStreamTrack | null} [microphone] sent with source "mirror"; stays the caller's
 * @property {RTCIceServer[]} [iceServers]
 * @property {number} [jitterMs] how long the browser may hold frames back, at least
 */

/** Fires `stream` (detail MediaStream), `message` (detail object from the server) and, once, `lost` (detail Failure). */
export class Link extends EventTarget {
  /** @type {string | null} */
  id = null;
  /** @type {number | null} */
  pingMs = null;
  #api;
  #options;
  #pc;
  #control;
  #stats = new StatsReader();
  #stream = new MediaStream();
  /** @type {RTCIceCandidate[]} */
  #candidates = [];
  #gathered = false;
  /** @type {number | undefined} */
  #trickleTimer;
  #trickling = Promise.resolve();
  #closed = false;
  /** @type {Failure | null} */
  #failure = null;

  /**
   * @param {import("./api.js").Api} api
   * @param {LinkOptions} options
   * @throws {Failure} no-webrtc, codec-unsupported
   */
  constructor(api, options) {
    super();
    if (typeof RTCPeerConnection === "undefined") throw new Failure("no-webrtc");
    this.#api = api;
    this.#options = options;
    this.#pc = new RTCPeerConnection({ iceServers: options.iceServers ?? [], bundlePolicy: "max-bundle" });
    this.#control = this.#pc.createDataChannel("control");
    this.#control.addEventListener("message", (event) => this.#receive(event.data));
    this.#control.addEventListener("close", () => this.#lose(new Failure("server-gone")));
    this.#pc.addEventListener("datachannel", ({ channel }) => {
      channel.addEventListener("message", (event) => this.#receive(event.data));
    });
    this.#pc.addEventListener("icecandidate", ({ candidate }) => this.#gather(candidate));
    this.#pc.addEventListener("track", (event) => this.#addTrack(event));
    try {
      this.#addTransceivers();
    } catch (error) {
      this.#pc.close();
      throw error;
    }
  }

  /**
   * Offers, asks for a session and waits until media can flow.
   * @param {number} timeoutMs
   * @throws {Failure}
   */
  async open(timeoutMs) {
    const connected = this.#connected(timeoutMs);
    connected.catch(() => {}); // awaited below; may fail before that
    await this.#pc.setLocalDescription();
    const offer = this.#pc.localDescription?.sdp ?? "";
    const answer = await this.#api.openSession(this.#options, offer);
    this.id = answer.id;
    if (this.#closed) {
      await this.#hangUp();
      throw new Failure("session-ended");
    }
    await this.#pc.setRemoteDescription({ type: "answer", sdp: answer.sdp });
    this.#scheduleTrickle();
    await connected;
  }

  /** @returns {Promise<import("./stats.js").Figures>} */
  async figures() {
    return this.#stats.read(await this.#pc.getStats());
  }

  /**
   * Sends a message on `control`, if it is open.
   * @param {object} message
   * @returns {boolean} whether it was sent
   */
  send(message) {
    if (this.#control.readyState !== "open") return false;
    this.#control.send(JSON.stringify(message));
    return true;
  }

  ping() {
    this.send({ type: "ping", t: performance.now() });
  }

  /**
   * Another microphone without a new session.
   * @param {MediaStreamTrack | null} track
   */
  async replaceMicrophone(track) {
    const sender = this.#pc.getTransceivers().find(({ receiver }) => receiver.track.kind === "audio")?.sender;
    await sender?.replaceTrack(track);
  }

  /** Ends the session on both sides. Idempotent. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#trickleTimer);
    this.#pc.getReceivers().forEach(({ track }) => track.stop());
    // The server is told first: once the connection is down it may have forgotten the session already.
    this.#hangUp().finally(() => this.#pc.close());
  }

  async #hangUp() {
    const id = this.id;
    if (!id) return;
    await this.#trickling;
    await this.#api.hangUp(id).catch(() => {}); // gone already is as good
  }

  #addTransceivers() {
    const { microphone, codec } = this.#options;
    if (microphone) {
      this.#pc.addTransceiver(microphone, { direction: "sendrecv", streams: [new MediaStream([microphone])] });
    } else {
      this.#pc.addTransceiver("audio", { direction: "recvonly" });
    }
    const video = this.#pc.addTransceiver("video", { direction: "recvonly" });
    if (codec) video.setCodecPreferences(codecsNamed(codec));
  }

  /** @param {RTCTrackEvent} event */
  #addTrack({ track, receiver }) {
    // The browser lines up tracks of one sender's stream; one MediaStream hands both to one element.
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = this.#options.jitterMs ?? 0;
    this.#stream.addTrack(track);
    if (this.#stream.getTracks().length === 2) {
      this.dispatchEvent(new CustomEvent("stream", { detail: this.#stream }));
    }
  }

  /** @param {number} timeoutMs */
  #connected(timeoutMs) {
    return /** @type {Promise<void>} */ (
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Failure("ice-failed")), timeoutMs);
        this.#pc.addEventListener("connectionstatechange", () => {
          const state = this.#pc.connectionState;
          if (state !== "connected" && state !== "failed" && state !== "closed") return;
          clearTimeout(timer);
          if (state === "connected") resolve();
          const failure = new Failure("ice-failed");
          reject(failure);
          if (state === "failed") this.#lose(failure);
        });
        this.addEventListener("lost", () => {
          clearTimeout(timer);
          reject(this.#failure);
        });
      })
    );
  }

  /** @param {RTCIceCandidate | null} candidate */
  #gather(candidate) {
    if (!candidate?.candidate) this.#gathered = true;
    else this.#candidates.push(candidate);
    this.#scheduleTrickle();
  }

  #scheduleTrickle() {
    if (!this.id || this.#closed || (this.#candidates.length === 0 && !this.#gathered)) return;
    clearTimeout(this.#trickleTimer);
    this.#trickleTimer = setTimeout(() => this.#trickle(), TRICKLE_BATCH_MS);
  }

  #trickle() {
    const id = this.id;
    if (this.#closed || !id) return;
    const batch = this.#candidates.splice(0);
    const fragment = candidateFragment(this.#pc.localDescription?.sdp ?? "", batch, this.#gathered);
    // One after the other, so that the end of candidates is the last word.
    this.#trickling = this.#trickling
      .then(() => this.#api.trickle(id, fragment))
      .catch((error) => this.#lose(Failure.from(error)));
  }

  /** @param {string} text */
  #receive(text) {
    const message = JSON.parse(text);
    if (message.type === "pong") this.pingMs = performance.now() - message.t;
    else this.dispatchEvent(new CustomEvent("message", { detail: message }));
  }

  /** @param {Failure} failure */
  #lose(failure) {
    if (this.#closed || this.#failure) return;
    this.#failure = failure;
    this.dispatchEvent(new CustomEvent("lost", { detail: failure }));
  }
}

/**
 * @param {string} name "vp8" or "h264"
 * @returns {RTCRtpCodec[]} that codec and its repair formats
 * @throws {Failure} codec-unsupported
 */
function codecsNamed(name) {
  const codecs = RTCRtpReceiver.getCapabilities?.("video")?.codecs ?? [];
  const wanted = codecs.filter(({ mimeType }) => mimeType.toLowerCase() === `video/${name}`);
  if (wanted.length === 0) throw new Failure("codec-unsupported", { name });
  return [...wanted, ...codecs.filter(({ mimeType }) => /\/(rtx|red|ulpfec)$/i.test(mimeType))];
}
