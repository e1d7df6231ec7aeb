/** The server's HTTP interface: addresses, token, problem+json. Knows no WebRTC and no page. */

import { Failure } from "./failure.js";

const CALL_TIMEOUT_MS = 20_000;
const SPEECH_TIMEOUT_MS = 120_000;
const SPEECH_REFUSALS = ["refused", "server-full", "warming"];

/**
 * @typedef {{id: string, title: string, url: string, seconds: number, text?: string}} Sample
 * @typedef {{version: string, engine: {name: string, ready: boolean, look_ahead_ms: number}, tts: string[],
 *   samples: Sample[], canvas: number[], sessions: {active: number, limit: number},
 *   ice_servers: RTCIceServer[]}} Capabilities
 * @typedef {{id: string, title: string, width: number, height: number, cycle_frames: number,
 *   state: "ready" | "preparing" | "failed", progress: number | null, error: string | null,
 *   thumbnail: string | null}} Avatar
 * @typedef {{method?: string, body?: BodyInit, type?: string, accept?: string, keepalive?: boolean,
 *   timeoutMs?: number, signal?: AbortSignal}} Call `signal` gives the call up, quietly
 */

export class Api {
  /** @param {{server: string | URL, token?: string | null}} options `server` is the address the page is served at */
  constructor({ server, token = null }) {
    this.base = new URL("./", server);
    this.token = token;
  }

  /**
   * An absolute address; a path from the server ("/api/…") stays below the base, so a proxy prefix works.
   * @param {string} path
   */
  url(path) {
    return new URL(path.replace(/^\//, ""), this.base);
  }

  /**
   * One call. Resolves with a response that is `ok`.
   * @param {string} path
   * @param {Call} [call]
   * @returns {Promise<Response>}
   * @throws {Failure}
   */
  async call(path, { method = "GET", body, type, accept, keepalive = false, ...limits } = {}) {
    const headers = new Headers();
    if (type) headers.set("Content-Type", type);
    if (accept) headers.set("Accept", accept);
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    const timeout = AbortSignal.timeout(limits.timeoutMs ?? CALL_TIMEOUT_MS);
    const signal = limits.signal ? AbortSignal.any([timeout, limits.signal]) : timeout;
    let response;
    try {
      response = await fetch(this.url(path), { method, body, headers, keepalive, signal, cache: "no-store" });
    } catch (error) {
      throw new Failure(limits.signal?.aborted ? "session-ended" : "server-gone", { cause: error });
    }
    if (!response.ok) throw await this.#refusal(response);
    return response;
  }

  /** @returns {Promise<Capabilities>} */
  async capabilities() {
    return (await this.call("api/capabilities")).json();
  }

  /** @returns {Promise<Avatar[]>} */
  async avatars() {
    return (await (await this.call("api/avatars")).json()).avatars;
  }

  /**
   * A picture or a sound of the server, for places that cannot send the token themselves.
   * @param {string} path
   */
  async blob(path) {
    return (await this.call(path)).blob();
  }

  /**
   * Opens a session.
   * @param {{avatar?: string | null, source: string, canvas?: number | null, badge?: string | null}} wish
   * @param {string} sdp the offer
   * @returns {Promise<{id: string, sdp: string}>}
   */
  async openSession({ avatar, source, canvas, badge }, sdp) {
    const query = new URLSearchParams({ source });
    if (avatar) query.set("avatar", avatar);
    if (canvas) query.set("canvas", String(canvas));
    if (badge) query.set("badge", badge);
    try {
      const call = { method: "POST", body: sdp, type: "application/sdp", accept: "application/sdp" };
      const response = await this.call(`api/sessions?${query}`, call);
      const location = response.headers.get("Location") ?? "";
      const id = decodeURIComponent(location.split("/").pop() ?? "");
      return { id, sdp: await response.text() };
    } catch (error) {
      if (error instanceof Failure && error.status === 404) {
        throw new Failure("unknown-avatar", { name: avatar ?? undefined, status: 404 });
      }
      throw error;
    }
  }

  /**
   * @param {string} id
   * @param {string} fragment RFC 8840
   */
  async trickle(id, fragment) {
    await this.call(sessionPath(id), { method: "PATCH", body: fragment, type: "application/trickle-ice-sdpfrag" });
  }

  /** @param {string} id */
  async hangUp(id) {
    await this.call(sessionPath(id), { method: "DELETE", keepalive: true });
  }

  /**
   * Speaks a sound file or a text.
   * @param {string} id
   * @param {Blob | string} speech
   * @param {AbortSignal} [signal]
   * @returns {Promise<{speech: string, seconds: number}>}
   */
  async speak(id, speech, signal) {
    const type = typeof speech === "string" ? "text/plain; charset=utf-8" : soundType(speech);
    try {
      const call = { method: "POST", body: speech, type, timeoutMs: SPEECH_TIMEOUT_MS, signal };
      return await (await this.call(`${sessionPath(id)}/speech`, call)).json();
    } catch (error) {
      if (!(error instanceof Failure) || !SPEECH_REFUSALS.includes(error.code)) throw error;
      throw new Failure("speech-refused", { detail: error.reason ?? undefined, status: error.status ?? undefined });
    }
  }

  /**
   * Where a session takes speech.
   * @param {string} id
   */
  speechUrl(id) {
    return this.url(`${sessionPath(id)}/speech`);
  }

  /**
   * Another avatar or size in a live session.
   * @param {string} id
   * @param {{avatar?: string, canvas?: number}} wish
   */
  async recast(id, { avatar, canvas }) {
    const query = new URLSearchParams();
    if (avatar) query.set("avatar", avatar);
    if (canvas) query.set("canvas", String(canvas));
    await this.call(`${sessionPath(id)}/avatar?${query}`, { method: "POST" });
  }

  /** @param {string} id */
  async interrupt(id) {
    await this.call(`${sessionPath(id)}/interrupt`, { method: "POST" });
  }

  /**
   * @param {Response} response
   * @returns {Promise<Failure>}
   */
  async #refusal(response) {
    const { status } = response;
    const { type = "", detail } = await readProblem(response);
    if (status === 401 || status === 403) return new Failure("token-needed", { status });
    if (status === 404 || status === 410) return new Failure("session-ended", { status, detail });
    if (status === 503 || status === 429) {
      const retryAfterS = Number.parseInt(response.headers.get("Retry-After") ?? "", 10) || 5;
      const code = type.endsWith("SessionLimit") ? "server-full" : "warming";
      return new Failure(code, { status, detail, retryAfterS });
    }
    return new Failure("refused", { status, detail });
  }
}

/**
 * Some systems call an Ogg file a video; the server looks at the bytes anyway.
 * @param {Blob} sound
 */
function soundType(sound) {
  return sound.type.startsWith("audio/") ? sound.type : "application/octet-stream";
}

/** @param {string} id */
function sessionPath(id) {
  return `api/sessions/${encodeURIComponent(id)}`;
}

/**
 * The RFC 9457 document of a refusal, empty where there is none.
 * @param {Response} response
 * @returns {Promise<{type?: string, detail?: string}>}
 */
async function readProblem(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}
