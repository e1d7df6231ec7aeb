/** From getStats() to the figures that matter: rates, delays, losses. Keeps the last report to take differences. */

/**
 * @typedef {object} Figures a value is null until the browser knows it
 * @property {number} t_ms
 * @property {number} framesReceived
 * @property {number} framesDecoded
 * @property {number} framesDropped
 * @property {number} freezeCount
 * @property {number | null} fps
 * @property {number | null} bitrateKbps picture and sound together
 * @property {number | null} jitterBufferMs wait of a picture in the browser's buffer
 * @property {number | null} decodeMs
 * @property {number | null} renderMs from a picture's being decoded to its being shown; null where nobody told
 * @property {number | null} rttMs
 * @property {number | null} avOffsetMs picture ahead of its sound at the playout, by the senders' clocks
 * @property {number} packetsLost
 * @property {string | null} codec
 */

/** @typedef {Record<string, any>} Entry one dictionary of a stats report */

export class StatsReader {
  /** @type {{t_ms: number, video: Entry, bytes: number} | null} */
  #last = null;

  /**
   * @param {RTCStatsReport} report
   * @returns {Figures}
   */
  read(report) {
    const { video, audio, pair, entries } = pick(report);
    const t_ms = video.timestamp ?? performance.timeOrigin + performance.now();
    const bytes = (video.bytesReceived ?? 0) + (audio.bytesReceived ?? 0);
    const last = this.#last;
    const seconds = last ? (t_ms - last.t_ms) / 1000 : 0;
    const since = (/** @type {string} */ field) => (video[field] ?? 0) - (last?.video[field] ?? 0);
    const figures = {
      t_ms,
      framesReceived: video.framesReceived ?? 0,
      framesDecoded: video.framesDecoded ?? 0,
      framesDropped: video.framesDropped ?? 0,
      freezeCount: video.freezeCount ?? 0,
      fps: seconds > 0 ? since("framesDecoded") / seconds : null,
      bitrateKbps: last && seconds > 0 ? ((bytes - last.bytes) * 8) / 1000 / seconds : null,
      jitterBufferMs: perItemMs(since("jitterBufferDelay"), since("jitterBufferEmittedCount")),
      decodeMs: perItemMs(since("totalDecodeTime"), since("framesDecoded")),
      renderMs: null,
      rttMs: typeof pair?.currentRoundTripTime === "number" ? pair.currentRoundTripTime * 1000 : null,
      avOffsetMs: offsetMs(video, audio),
      packetsLost: (video.packetsLost ?? 0) + (audio.packetsLost ?? 0),
      codec: entries.get(video.codecId)?.mimeType?.replace("video/", "") ?? null,
    };
    this.#last = { t_ms, video, bytes };
    return figures;
  }
}

/**
 * @param {RTCStatsReport} report
 * @returns {{video: Entry, audio: Entry, pair: Entry | undefined, entries: Map<string, Entry>}}
 */
function pick(report) {
  /** @type {Map<string, Entry>} */
  const entries = new Map();
  report.forEach((entry, id) => entries.set(id, entry));
  const all = [...entries.values()];
  const inbound = (/** @type {string} */ kind) => all.find((e) => e.type === "inbound-rtp" && e.kind === kind) ?? {};
  const transport = all.find((entry) => entry.type === "transport");
  const pair =
    entries.get(transport?.selectedCandidatePairId) ??
    all.find((entry) => entry.type === "candidate-pair" && entry.nominated && entry.state === "succeeded");
  return { video: inbound("video"), audio: inbound("audio"), pair, entries };
}

/**
 * @param {number} totalS
 * @param {number} items
 * @returns {number | null}
 */
function perItemMs(totalS, items) {
  return items > 0 ? (totalS * 1000) / items : null;
}

/**
 * @param {Entry} video
 * @param {Entry} audio
 * @returns {number | null}
 */
function offsetMs(video, audio) {
  if (!video.estimatedPlayoutTimestamp || !audio.estimatedPlayoutTimestamp) return null;
  return video.estimatedPlayoutTimestamp - audio.estimatedPlayoutTimestamp;
}
