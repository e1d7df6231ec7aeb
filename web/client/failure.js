/** Everything that can go wrong, in words a visitor understands. Knows no page: callers show `title` and `detail`. */

/**
 * @typedef {"retry" | "reload" | "token" | "none"} Action what a visitor can do about it
 * @typedef {{title: string, detail: string, action: Action}} Words
 * @typedef {{detail?: string, status?: number, retryAfterS?: number, name?: string, cause?: unknown}} Facts
 */

/** @type {Record<string, (facts: Facts) => Words>} */
const WORDS = {
  "mic-denied": () => ({
    title: "The microphone is blocked",
    detail: "This page may not listen yet. Allow the microphone from the icon in the address bar, then start again.",
    action: "retry",
  }),
  "mic-missing": () => ({
    title: "No microphone found",
    detail: "Plug one in, or play a sample instead: the anchor speaks without a microphone too.",
    action: "retry",
  }),
  "mic-busy": () => ({
    title: "The microphone is in use",
    detail: "Another program holds it. Close that program, or choose another microphone, then start again.",
    action: "retry",
  }),
  "mic-lost": () => ({
    title: "The microphone went away",
    detail: "It was unplugged or switched off. Connect it again, or choose another one, then start again.",
    action: "retry",
  }),
  "insecure-origin": () => ({
    title: "The microphone needs a secure address",
    detail: "Browsers only open it on https or on localhost. Open this page that way; samples and text work here.",
    action: "none",
  }),
  "no-webrtc": () => ({
    title: "This browser cannot receive live video",
    detail: "WebRTC is missing or switched off here. A current Chrome, Edge, Firefox or Safari will do.",
    action: "none",
  }),
  "codec-unsupported": ({ name }) => ({
    title: `This browser cannot play ${(name ?? "that codec").toUpperCase()}`,
    detail: "Remove ?codec= from the address and let the browser choose.",
    action: "none",
  }),
  "ice-failed": () => ({
    title: "No path for picture and sound",
    detail: "The server answers, but its media packets do not arrive. A firewall may block UDP; a TURN server helps.",
    action: "retry",
  }),
  "server-full": () => ({
    title: "Every seat is taken",
    detail: "This server takes only as many visitors as it can keep in time.",
    action: "retry",
  }),
  "server-gone": () => ({
    title: "The server does not answer",
    detail: "It may be restarting, or the network is down. The connection comes back by itself as soon as it can.",
    action: "retry",
  }),
  "media-stalled": () => ({
    title: "The picture stopped arriving",
    detail: "No frame came for two seconds. A new connection is being made.",
    action: "retry",
  }),
  "session-ended": () => ({
    title: "The session has ended",
    detail: "The server closed it. Start again for a new one.",
    action: "retry",
  }),
  "unknown-avatar": ({ name }) => ({
    title: name ? `There is no anchor named “${name}”` : "There is no such anchor",
    detail: "It may have been removed. Choose one of the others and start again.",
    action: "none",
  }),
  "no-avatars": () => ({
    title: "No anchor is ready",
    detail: "The server has no avatar to show yet. Add a portrait on the server, then reload this page.",
    action: "reload",
  }),
  preparing: () => ({
    title: "The first anchor is being prepared",
    detail: "This happens once, after the first start. The page goes on by itself.",
    action: "none",
  }),
  "token-needed": () => ({
    title: "This server asks for a token",
    detail: "Enter the token it was started with, or open the page with ?\u2060token= in the address.",
    action: "token",
  }),
  warming: () => ({
    title: "The engine is warming up",
    detail: "The first seconds after a start go into preparing faces. It begins by itself when ready.",
    action: "none",
  }),
  "autoplay-blocked": () => ({
    title: "Sound is waiting for you",
    detail: "The browser holds back sound until you tap.",
    action: "none",
  }),
  "speech-refused": ({ detail }) => ({
    title: "That could not be spoken",
    detail: sentence(detail) ?? "Send a WAV, FLAC, MP3 or Ogg file, or up to 2,000 characters of text.",
    action: "none",
  }),
  refused: ({ detail, status }) => ({
    title: "The server refused",
    detail: sentence(detail) ?? (status ? `It answered with status ${status}.` : "It gave no reason."),
    action: "retry",
  }),
  unexpected: ({ detail }) => ({
    title: "Something unexpected went wrong",
    detail: sentence(detail) ?? "Reload the page and try again.",
    action: "reload",
  }),
};

/** A failure with a stable `code`, words for people, and the facts behind them. */
export class Failure extends Error {
  /**
   * @param {string} code a key of the table above
   * @param {Facts} [facts]
   */
  constructor(code, facts = {}) {
    const words = (WORDS[code] ?? WORDS.unexpected)(facts);
    super(`${words.title}. ${words.detail}`, { cause: facts.cause });
    this.name = "Failure";
    this.code = code;
    this.title = words.title;
    this.detail = words.detail;
    this.action = words.action;
    this.status = facts.status ?? null;
    this.retryAfterS = facts.retryAfterS ?? null;
    this.reason = facts.detail ?? null;
  }

  /**
   * Any thrown value as a Failure.
   * @param {unknown} error
   * @returns {Failure}
   */
  static from(error) {
    if (error instanceof Failure) return error;
    const detail = error instanceof Error ? error.message : String(error);
    return new Failure("unexpected", { detail, cause: error });
  }

  /**
   * What getUserMedia threw, as a Failure.
   * @param {unknown} error
   * @returns {Failure}
   */
  static fromMicrophone(error) {
    const name = error instanceof DOMException ? error.name : "";
    if (name === "NotAllowedError" || name === "SecurityError") return new Failure("mic-denied", { cause: error });
    if (name === "NotFoundError" || name === "OverconstrainedError") return new Failure("mic-missing", { cause: error });
    if (name === "NotReadableError" || name === "AbortError") return new Failure("mic-busy", { cause: error });
    return Failure.from(error);
  }
}

/**
 * The server's own words as a sentence.
 * @param {string | undefined} words
 */
function sentence(words) {
  return words && `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}

/** Codes after which a new attempt can succeed without the visitor doing anything. */
export const PASSING_CODES = Object.freeze(["server-full", "server-gone", "warming", "media-stalled", "session-ended"]);
