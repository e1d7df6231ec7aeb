/** Names of anchors: what the server takes, and a first guess from a file's name. Pure. */

const LONGEST = 64;
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/**
 * A name the server takes, from whatever a file is called.
 * @param {string} fileName
 */
export function suggestedName(fileName) {
  const stem = fileName.replace(/\.[^.]*$/, "");
  const plain = stem.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const name = plain.replace(/[^a-z0-9_]+/g, "-").replace(/^[-_]+/, "").slice(0, LONGEST).replace(/[-_]+$/, "");
  return name || "anchor";
}

/**
 * What is wrong with a name, or null.
 * @param {string} name
 */
export function nameProblem(name) {
  if (NAME.test(name)) return null;
  if (name === "") return "Give the anchor a name.";
  if (/^[_-]/.test(name)) return "Begin the name with a letter or a digit.";
  return "Use only small letters a to z, digits, - and _, at most 64 of them.";
}
