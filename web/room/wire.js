/** A media connection by one POST, as WHIP and WHEP make it: offer in, answer out, trickle by PATCH, end by DELETE. */

import { candidateFragment } from "../client/fragment.js";

/** Fires `stream` (detail MediaStream) and, once, `lost` (detail words for people). */
export class Wire extends EventTarget {
  #url;
  #headers;
  #pc;
  #stream = new MediaStream();
  /** @type {RTCIceCandidate[]} */
  #candidates = [];
  #session = "";
  #etag = "";
  #closed = false;
  #trickling = Promise.resolve();

  /**
   * @param {URL} url where the offer is posted
   * @param {{token?: string | null, microphone?: MediaStreamTrack | null, codec?: string | null}} options
   */
  constructor(url, { token = null, microphone = null, codec = null } = {}) {
    super();
    this.#url = url;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#pc = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
    this.#pc.addEventListener("icecandidate", ({ candidate }) => this.#gather(candidate));
    this.#pc.addEventListener("connectionstatechange", () => this.#watch());
    this.#pc.addEventListener("track", ({ track }) => {
      this.#stream.addTrack(track);
      this.dispatchEvent(new CustomEvent("stream", { detail: this.#stream }));
    });
    if (microphone) this.#pc.addTransceiver(microphone, { direction: "sendrecv" });
    else this.#pc.addTransceiver("audio", { direction: "recvonly" });
    const video = this.#pc.addTransceiver("video", { direction: "recvonly" });
    if (codec) video.setCodecPreferences(only(codec));
  }

  get stream() {
    return this.#stream;
  }

  /** @returns {Promise<RTCStatsReport>} */
  stats() {
    return this.#pc.getStats();
  }

  /** Resolves once the answer is applied. Rejects with an Error whose `status` is the server's, 0 without one. */
  async open() {
    await this.#pc.setLocalDescription();
    const response = await this.#fetch(this.#url, "POST", "application/sdp", this.#pc.localDescription?.sdp);
    if (!response.ok) throw await refusal(response);
    this.#session = new URL(response.headers.get("Location") ?? "", this.#url).href;
    this.#etag = response.headers.get("ETag") ?? "*";
    if (this.#closed) return this.#hangUp();
    await this.#pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
    this.#trickle(false);
  }

  /** Ends both sides. Idempotent. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#pc.close();
    this.#hangUp();
  }

  /** @param {RTCIceCandidate | null} candidate */
  #gather(candidate) {
    if (candidate?.candidate) this.#candidates.push(candidate);
    if (this.#session) this.#trickle(candidate === null);
  }

  /** @param {boolean} ended */
  #trickle(ended) {
    const candidates = this.#candidates.splice(0);
    if (this.#closed || (candidates.length === 0 && !ended)) return;
    const body = candidateFragment(this.#pc.localDescription?.sdp ?? "", candidates, ended);
    this.#trickling = this.#trickling.then(async () => {
      await this.#fetch(this.#session, "PATCH", "application/trickle-ice-sdpfrag", body).catch(() => {});
    });
  }

  #watch() {
    if (["failed", "closed", "disconnected"].includes(this.#pc.connectionState) && !this.#closed) {
      this.close();
      this.dispatchEvent(new CustomEvent("lost", { detail: "The connection was lost." }));
    }
  }

  #hangUp() {
    if (this.#session) fetch(this.#session, { method: "DELETE", headers: this.#headers, keepalive: true }).catch(() => {});
  }

  /**
   * @param {URL | string} url
   * @param {string} method
   * @param {string} type
   * @param {string | undefined} body
   */
  #fetch(url, method, type, body) {
    const match = method === "PATCH" ? { "If-Match": this.#etag } : {};
    return fetch(url, { method, body, headers: { ...this.#headers, ...match, "Content-Type": type } });
  }
}

/**
 * What the server says against it, with its status.
 * @param {Response} response
 */
export async function refusal(response) {
  const problem = await response.json().catch(() => ({}));
  return Object.assign(new Error(problem.detail ?? response.statusText), { status: response.status });
}

/** @param {string} codec */
function only(codec) {
  const all = RTCRtpReceiver.getCapabilities("video")?.codecs ?? [];
  return all.filter((c) => c.mimeType.toLowerCase() === `video/${codec}` || c.mimeType.toLowerCase() === "video/rtx");
}
