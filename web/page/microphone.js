/** The visitor's microphone: permission, choice of device, mute, level. Knows no session. */

import { Failure } from "../client/failure.js";

const FLOOR_DB = -60;

/** Fires `lost` (detail Failure) when the device goes away, `devices` when the list may have changed. */
export class Microphone extends EventTarget {
  /** @type {MediaStream | null} */
  #stream = null;
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {AnalyserNode | null} */
  #analyser = null;
  #samples = new Float32Array(1024);
  #raw;
  muted = false;

  /** @param {{raw: boolean}} options `raw` switches the browser's voice processing off */
  constructor({ raw }) {
    super();
    this.#raw = raw;
    navigator.mediaDevices?.addEventListener("devicechange", () => this.dispatchEvent(new Event("devices")));
  }

  /** @returns {MediaStreamTrack | null} */
  get track() {
    return this.#stream?.getAudioTracks()[0] ?? null;
  }

  /** @returns {Promise<MediaDeviceInfo[]>} those that can be told apart; none before permission */
  async devices() {
    const all = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
    return all.filter(({ kind, deviceId }) => kind === "audioinput" && deviceId);
  }

  /**
   * Opens a device, or the default one. Asks for permission where needed.
   * @param {string} deviceId "" for the default
   * @returns {Promise<MediaStreamTrack>}
   * @throws {Failure}
   */
  async open(deviceId) {
    if (!navigator.mediaDevices) throw new Failure(isSecureContext ? "no-webrtc" : "insecure-origin");
    const processing = !this.#raw;
    const audio = {
      deviceId: deviceId ? { exact: deviceId } : undefined,
      echoCancellation: processing,
      noiseSuppression: processing,
      autoGainControl: processing,
      channelCount: 1,
    };
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio });
    } catch (error) {
      if (deviceId && error instanceof DOMException && error.name === "OverconstrainedError") return this.open("");
      throw Failure.fromMicrophone(error);
    }
    this.close();
    this.#stream = stream;
    const track = stream.getAudioTracks()[0];
    track.enabled = !this.muted;
    track.addEventListener("ended", () => this.#lose(track));
    this.#listen(stream);
    this.dispatchEvent(new Event("devices"));
    return track;
  }

  /** @param {boolean} muted */
  setMuted(muted) {
    this.muted = muted;
    if (this.track) this.track.enabled = !muted;
  }

  /** Loudness now, in dB below full scale, -60 to 0. */
  levelDb() {
    if (!this.#analyser || this.muted) return FLOOR_DB;
    this.#analyser.getFloatTimeDomainData(this.#samples);
    let power = 0;
    for (const sample of this.#samples) power += sample * sample;
    const db = 10 * Math.log10(power / this.#samples.length + 1e-12);
    return Math.min(0, Math.max(FLOOR_DB, db));
  }

  close() {
    this.#stream?.getTracks().forEach((track) => track.stop());
    this.#stream = null;
    this.#analyser = null;
    this.#context?.close();
    this.#context = null;
  }

  /** @param {MediaStream} stream */
  #listen(stream) {
    this.#context = new AudioContext();
    this.#analyser = this.#context.createAnalyser();
    this.#analyser.fftSize = this.#samples.length;
    this.#context.createMediaStreamSource(stream).connect(this.#analyser);
  }

  /** @param {MediaStreamTrack} track */
  #lose(track) {
    if (track !== this.track) return;
    this.close();
    this.dispatchEvent(new CustomEvent("lost", { detail: new Failure("mic-lost") }));
  }
}
