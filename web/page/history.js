/** The last two minutes of a session, one entry a second. Takes differences of the server's counters. */

export const HISTORY_S = 120;
export const KINDS = /** @type {const} */ (["voiced", "idle", "held", "late"]);

/**
 * @typedef {Record<"voiced" | "idle" | "held" | "late", number>} Counts
 * @typedef {{p50: number | null, p95: number | null}} Spread
 * @typedef {{type: "snapshot", t_ms: number, uptime_s: number, fps: number, frames: Counts, mic_to_lip_ms: Spread,
 *   stages_ms: Record<string, Spread>, av_offset_ms: number | null, playout_delay_ms: number, look_ahead_ms: number,
 *   bitrate_kbps: number, loop_lag_ms: number, speaking: boolean}} Snapshot
 * @typedef {{t_ms: number, p50: number | null, p95: number | null, counts: Counts, marks: string[]}} Entry
 */

export class History {
  /** @type {Entry[]} */
  entries = [];
  /** @type {Counts} */
  totals = none();
  /** @type {string[]} */
  #marks = [];
  /** @type {Snapshot | null} */
  last = null;

  clear() {
    this.entries = [];
    this.totals = none();
    this.last = null;
    this.#marks = [];
  }

  /** @param {Snapshot} snapshot */
  push(snapshot) {
    const counts = none();
    for (const kind of KINDS) {
      const total = snapshot.frames[kind] ?? 0;
      counts[kind] = Math.max(0, total - this.totals[kind]);
      this.totals[kind] = total;
    }
    const { p50 = null, p95 = null } = snapshot.mic_to_lip_ms ?? {};
    this.entries.push({ t_ms: snapshot.t_ms, p50, p95, counts, marks: this.#marks });
    if (this.entries.length > HISTORY_S) this.entries.shift();
    this.#marks = [];
    this.last = snapshot;
  }

  /**
   * Something that happened since the last snapshot.
   * @param {string} name
   */
  mark(name) {
    this.#marks.push(name);
  }

  /** Share of late and held among the frames that had a voice, in percent; null before the first. */
  get missedPercent() {
    const { voiced, held, late } = this.totals;
    const wanted = voiced + held + late;
    return wanted > 0 ? ((held + late) * 100) / wanted : null;
  }
}

/** @returns {Counts} */
function none() {
  return { voiced: 0, idle: 0, held: 0, late: 0 };
}
