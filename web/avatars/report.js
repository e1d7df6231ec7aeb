/** How well a picture suits, for people: a grade, what was measured, and what would make it better. */

import { made } from "../page/element.js";
import { sentence } from "./trouble.js";

/** @type {Record<string, string>} */
const GRADES = {
  A: "Nothing to improve",
  B: "Good, with a small reservation",
  C: "Usable, but it will show",
  D: "Better use another picture",
};
const STRAIGHT_DEG = 5;

/** @typedef {import("./works.js").Report} Report */

/**
 * @param {Partial<Report>} report
 * @returns {HTMLElement | null} null where nothing was measured
 */
export function reportSheet(report) {
  const { grade } = report;
  if (!grade) return null;
  const sheet = made("div", "report");
  const head = made("p", "report-head");
  const letter = made("strong", "grade", grade);
  letter.dataset.grade = grade;
  letter.setAttribute("aria-label", `Grade ${grade}`);
  head.append(letter, made("span", "", GRADES[grade] ?? ""));
  sheet.append(head, measured(report));
  const advice = report.advice ?? [];
  if (advice.length > 0) sheet.append(adviceList(advice.map(({ text }) => sentence(pageWords(text)))));
  return sheet;
}

/** @param {string[]} lines */
export function adviceList(lines) {
  const list = made("ul", "advice");
  list.append(...lines.map((line) => made("li", "", line)));
  return list;
}

/**
 * The pose in words: right and up as seen on the picture.
 * @param {Partial<Report>} report
 */
export function poseWords({ yaw_deg = 0, pitch_deg = 0, roll_deg = 0 }) {
  const words = [];
  if (Math.abs(yaw_deg) >= STRAIGHT_DEG) words.push(`turned ${degrees(yaw_deg)} to the ${yaw_deg > 0 ? "right" : "left"}`);
  if (Math.abs(pitch_deg) >= STRAIGHT_DEG) words.push(`looks ${degrees(pitch_deg)} ${pitch_deg > 0 ? "up" : "down"}`);
  if (Math.abs(roll_deg) >= STRAIGHT_DEG) words.push(`leans ${degrees(roll_deg)}`);
  return words.join(", ") || "straight ahead";
}

/** @param {Partial<Report>} report */
function measured(report) {
  const list = made("dl", "measured");
  const add = (/** @type {string} */ term, /** @type {string} */ words) => {
    list.append(made("dt", "", term), made("dd", "", words));
  };
  add("Face", `${report.face_width_px} × ${report.face_height_px} px`);
  add("Head", poseWords(report));
  return list;
}

/**
 * Advice that names a flag of the command line, for people who have only this page.
 * @param {string} text
 */
function pageWords(text) {
  return text.replace("choose with --face", "crop the picture to choose another").replace(" or use --max-height", "");
}

/** @param {number} angle */
function degrees(angle) {
  return `${Math.round(Math.abs(angle))}°`;
}
