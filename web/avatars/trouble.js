/** What can go wrong with anchors, in words a person can act on. Pure. */

const MEGABYTE = 1_000_000;
const USUAL_LIMIT_BYTES = 200 * 1024 * 1024;
const BETTER_PICTURE = [
  "Use a photograph of one person, or a short clip of one.",
  "The face looks at the camera and fills a third of the picture or more.",
  "Hair, hands, sunglasses and masks leave eyes and mouth free.",
  "Even light, sharp, mouth closed.",
];
const MAKERS_REFUSAL = "no face found";

/** @typedef {import("../client/failure.js").Failure} Failure */
/** @typedef {{title: string, detail: string, advice: string[]}} Trouble */

/**
 * Why a file cannot be sent at all, or null.
 * @param {File} file
 * @returns {Trouble | null}
 */
export function fileTrouble(file) {
  if (file.size === 0) return told("This file is empty", "Choose another picture or clip.");
  if (file.type === "" || /^(image|video)\//.test(file.type)) return null;
  return told("This is neither a picture nor a clip", "Choose a JPEG, PNG or WebP picture, or an MP4, MOV or WebM clip.");
}

/**
 * Why an upload failed.
 * @param {Failure} failure
 * @param {File} file
 * @returns {Trouble}
 */
export function uploadTrouble(failure, file) {
  const { status, reason } = failure;
  // A server may hang up on a body that is too long before its answer is read.
  if (status === 413 || (failure.code === "server-gone" && file.size > USUAL_LIMIT_BYTES)) {
    const limit = Number(/\d{4,}/.exec(reason ?? "")?.[0]);
    const most = limit ? `The server takes ${megabytes(limit)} at most` : "The server takes less";
    return told("This file is too large", `${most}; this one has ${megabytes(file.size)}. Cut the clip or shrink the picture.`);
  }
  if (status === 415) return told("This is neither a picture nor a clip", "Choose a picture or a clip the browser knows.");
  if (status === 503 || status === 429) {
    const again = failure.retryAfterS ? `in ${failure.retryAfterS} seconds` : "in a moment";
    return told("The server is busy with other anchors", `Nothing is lost: try again ${again}.`);
  }
  if (status === 400) return told("The server refused the name or the file", sentence(reason) || failure.detail);
  if (failure.code === "server-gone") return told(failure.title, "Check the connection, then try again.");
  return told(failure.title, failure.detail);
}

/**
 * Why nothing came of an upload that had arrived.
 * @param {string | null} error the server's words
 * @returns {Trouble}
 */
export function makingTrouble(error) {
  if (error?.startsWith(MAKERS_REFUSAL)) {
    return told("No face was found", "The picture arrived, but there is no face in it to move.", BETTER_PICTURE);
  }
  return told("This cannot become an anchor", sentence(error) || "The server gave no reason.");
}

/**
 * The server's words as a sentence.
 * @param {string | null} words
 */
export function sentence(words) {
  return words ? `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}` : "";
}

/** @param {number} bytes */
export function megabytes(bytes) {
  if (bytes < MEGABYTE) return `${Math.max(1, Math.round(bytes / 1000))} kB`;
  return `${(bytes / MEGABYTE).toFixed(bytes < 10 * MEGABYTE ? 1 : 0)} MB`;
}

/**
 * @param {string} title
 * @param {string} detail
 * @param {string[]} [advice]
 * @returns {Trouble}
 */
function told(title, detail, advice = []) {
  return { title, detail, advice };
}
