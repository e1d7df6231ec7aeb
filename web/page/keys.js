/** Keyboard shortcuts, wherever the focus is not in something that needs the key itself. */

const TAKES_LETTERS = 'textarea, select, [contenteditable], input:not([type="radio"], [type="checkbox"], [type="range"], [type="file"])';
const TAKES_SPACE = 'textarea, select, [contenteditable], button, a, summary, input:not([type="range"], [type="radio"]:checked)';

/**
 * @param {Record<string, () => void>} actions by key as `KeyboardEvent.key` names it, in lower case
 * @returns {() => void} takes the shortcuts away again
 */
export function listenForKeys(actions) {
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const action = actions[event.key.toLowerCase()];
    if (!action || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = /** @type {Element} */ (event.target);
    if (target.closest(event.key === " " ? TAKES_SPACE : TAKES_LETTERS)) return;
    event.preventDefault();
    action();
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
