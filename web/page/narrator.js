/** Words for the lower third, the tally light and screen readers, from the state of the show. Pure. */

/**
 * @typedef {{title: string, detail: string, action: string | null, askToken: boolean, tally: string,
 *   status: string, alert: string}} Narration `status` and `alert` are for screen readers
 */

const TALLY = { idle: "Ready", connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", failed: "Stopped" };
const PATIENT = ["server-full", "warming", "preparing"];
const ACTION = { retry: "Try again", reload: "Reload the page", token: null, none: null };

/**
 * @param {import("../client.js").State} state
 * @param {import("../client/failure.js").Failure | null} failure
 * @param {string} name the anchor on stage
 * @param {"agent" | "mirror"} source
 * @returns {Narration}
 */
export function narrate(state, failure, name, source) {
  const plain = { title: name, detail: "", action: null, askToken: false, tally: TALLY[state], alert: "" };
  if (state === "connecting") return { ...plain, detail: "Connecting…", status: `Connecting to ${name}.` };
  if (state === "live") {
    const status = source === "mirror" ? `Live. ${name} says what you say.` : `Live. ${name} is on.`;
    return { ...plain, status };
  }
  if (!failure && state === "reconnecting") return { ...plain, detail: "Reconnecting…", status: "Reconnecting." };
  if (!failure) return { ...plain, status: "" };
  const tally = PATIENT.includes(failure.code) ? "Waiting" : TALLY[state];
  const told = { title: failure.title, detail: failure.detail, tally, status: "", alert: failure.message };
  if (state === "reconnecting") return { ...told, action: "Try now", askToken: false };
  return { ...told, action: ACTION[failure.action], askToken: failure.action === "token" };
}

/**
 * @param {number} seconds
 * @returns {string} "0:07"
 */
export function clockWords(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
