/** The server's side of making anchors: send a file, follow its making, delete, have a film made. Knows no element. */

import { backoffMs } from "../client/backoff.js";
import { Failure } from "../client/failure.js";

const POLL_MS = 400;
const PATIENCE = 8;
const FILM_TIMEOUT_MS = 180_000;
const FILM_CANVAS_PX = 512;

/**
 * @typedef {{about: string, text: string, cost: number}} Advice
 * @typedef {{grade: string, face_width_px: number, face_height_px: number, yaw_deg: number, pitch_deg: number,
 *   roll_deg: number, advice: Advice[]}} Report
 * @typedef {{job: string, avatar: string, state: "waiting" | "running" | "ready" | "failed", progress: number,
 *   error: string | null, report: Partial<Report>}} Job
 */

export class Works {
  #api;

  /** @param {import("../client/api.js").Api} api */
  constructor(api) {
    this.#api = api;
  }

  /**
   * Sends a picture or clip. XMLHttpRequest, because fetch does not tell how much has gone out.
   * @param {string} name of the anchor
   * @param {File} file
   * @param {(share: number) => void} onShare 0..1 of the file
   * @param {AbortSignal} signal
   * @returns {Promise<Job>}
   * @throws {Failure}
   */
  send(name, file, onShare, signal) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", this.#api.url(`api/avatars?${new URLSearchParams({ avatar: name })}`));
      request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
      if (this.#api.token) request.setRequestHeader("Authorization", `Bearer ${this.#api.token}`);
      request.responseType = "json";
      request.upload.addEventListener("progress", ({ loaded, total }) => onShare(total > 0 ? loaded / total : 0));
      request.addEventListener("load", () => (request.status === 202 ? resolve(request.response) : reject(refusal(request))));
      request.addEventListener("error", () => reject(new Failure("server-gone")));
      request.addEventListener("abort", () => reject(new Failure("session-ended")));
      signal.addEventListener("abort", () => request.abort(), { once: true });
      request.send(file);
    });
  }

  /**
   * Asks after a job until it has ended, and through a short silence of the server.
   * @param {Job} job
   * @param {(job: Job) => void} onStep
   * @returns {Promise<Job>}
   * @throws {Failure}
   */
  async follow(job, onStep) {
    let silences = 0;
    while (job.state === "waiting" || job.state === "running") {
      onStep(job);
      await pause(silences > 0 ? backoffMs(silences - 1) : POLL_MS);
      try {
        job = await (await this.#api.call(`api/avatars/jobs/${encodeURIComponent(job.job)}`)).json();
        silences = 0;
      } catch (error) {
        const { code } = Failure.from(error);
        if (code !== "server-gone" || silences >= PATIENCE) throw error;
        silences += 1;
      }
    }
    onStep(job);
    return job;
  }

  /** @param {string} id */
  async remove(id) {
    await this.#api.call(`api/avatars/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  /**
   * A film of an anchor saying a bundled sample.
   * @param {string} id
   * @param {import("../client/api.js").Sample} sample
   * @param {AbortSignal} signal
   * @returns {Promise<Blob>} MP4
   */
  async film(id, sample, signal) {
    const sound = await this.#api.blob(sample.url);
    const path = `api/avatars/${encodeURIComponent(id)}/render?canvas=${FILM_CANVAS_PX}`;
    const call = { method: "POST", body: sound, type: "audio/ogg", timeoutMs: FILM_TIMEOUT_MS, signal };
    return (await this.#api.call(path, call)).blob();
  }
}

/** @param {XMLHttpRequest} request */
function refusal(request) {
  const { status, response } = request;
  if (status === 401) return new Failure("token-needed", { status });
  const retryAfterS = Number.parseInt(request.getResponseHeader("Retry-After") ?? "", 10) || undefined;
  return new Failure("refused", { status, detail: response?.detail, retryAfterS });
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
