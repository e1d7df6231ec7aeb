/** How long to wait before the next attempt: doubling, capped, spread so that many viewers do not come back at once. */

export const FIRST_DELAY_MS = 500;
export const LONGEST_DELAY_MS = 8000;

/**
 * @param {number} attempt 0 for the first wait
 * @param {number} [spread] 0..1, a random number
 * @returns {number} milliseconds, between 75 % and 125 % of the doubled delay
 */
export function backoffMs(attempt, spread = Math.random()) {
  const delayMs = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
  return Math.round(delayMs * (0.75 + 0.5 * spread));
}
