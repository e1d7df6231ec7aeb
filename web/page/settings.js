/** What the address and this browser remember: token, codec, canvas, avatar, volume. Knows no element. */

/**
 * @typedef {object} Settings
 * @property {string | null} token
 * @property {"vp8" | "h264" | null} codec
 * @property {number | null} canvas
 * @property {string | null} avatar
 * @property {string | null} badge words in the corner of the picture
 * @property {number} jitterMs
 * @property {boolean} raw microphone without the browser's echo, noise and gain processing
 * @property {boolean} start go live without a click (for a kiosk)
 */

const TOKEN_KEY = "liveanchor.token";

/**
 * Reads the settings. A token moves out of the address, so that it is not on screen or in a shared link.
 * @param {Location} location
 * @returns {Settings}
 */
export function readSettings(location) {
  const url = new URL(location.href);
  const query = url.searchParams;
  const token = query.get("token");
  if (token) {
    keepToken(token);
    query.delete("token");
    history.replaceState(null, "", url);
  }
  const codec = query.get("codec")?.toLowerCase();
  return {
    token: token ?? sessionStorage.getItem(TOKEN_KEY),
    codec: codec === "vp8" || codec === "h264" ? codec : null,
    canvas: positive(query.get("canvas")),
    avatar: query.get("avatar"),
    badge: query.get("badge"),
    jitterMs: positive(query.get("jitter")) ?? 0,
    raw: query.get("raw") === "1",
    start: query.get("start") === "1",
  };
}

/** @param {string} token */
export function keepToken(token) {
  sessionStorage.setItem(TOKEN_KEY, token);
}

/**
 * @param {string} key
 * @param {string} value
 */
export function remember(key, value) {
  localStorage.setItem(`liveanchor.${key}`, value);
}

/**
 * @param {string} key
 * @returns {string | null}
 */
export function recall(key) {
  return localStorage.getItem(`liveanchor.${key}`);
}

/**
 * @param {string | null} text
 * @returns {number | null}
 */
function positive(text) {
  const number = Number.parseInt(text ?? "", 10);
  return number > 0 ? number : null;
}
