/** The microphone's controls: which device, how loud, mute, hear myself. */

import { element } from "./element.js";
import { Meter } from "./meter.js";
import { recall, remember } from "./settings.js";

/** Fires `device` (detail device id), `mute` (detail boolean) and `hear` (detail boolean). */
export class Booth extends EventTarget {
  #device = element("device", HTMLSelectElement);
  #mute = element("mute", HTMLButtonElement);
  #hear = element("hear-myself", HTMLInputElement);
  #microphone;
  #meter;

  /** @param {import("./microphone.js").Microphone} microphone */
  constructor(microphone) {
    super();
    this.#microphone = microphone;
    this.#meter = new Meter(element("meter", HTMLCanvasElement), () => microphone.levelDb());
    this.#device.addEventListener("change", () => {
      remember("microphone", this.#device.value);
      this.dispatchEvent(new CustomEvent("device", { detail: this.#device.value }));
    });
    this.#mute.addEventListener("click", () => this.toggleMute());
    this.#hear.addEventListener("change", () => {
      this.dispatchEvent(new CustomEvent("hear", { detail: this.#hear.checked }));
    });
    microphone.addEventListener("devices", () => this.refresh());
  }

  /** The chosen device's id, or "" for the default. */
  get deviceId() {
    return this.#device.value || recall("microphone") || "";
  }

  get hearsMyself() {
    return this.#hear.checked;
  }

  /** Lists the devices; names appear once the browser has permission. */
  async refresh() {
    const devices = await this.#microphone.devices();
    const current = this.#microphone.track?.getSettings().deviceId ?? recall("microphone") ?? "";
    const options = devices.map(({ deviceId, label }) => new Option(label || "Microphone", deviceId));
    if (options.length === 0) options.push(new Option("Default microphone", ""));
    this.#device.replaceChildren(...options);
    if (devices.some(({ deviceId }) => deviceId === current)) this.#device.value = current;
  }

  /**
   * Whether a microphone is open.
   * @param {boolean} open
   */
  setOpen(open) {
    this.#mute.disabled = !open;
    if (open) this.#meter.start();
    else this.#meter.stop();
  }

  /** @returns {boolean | null} the new state, or null while no microphone is open */
  toggleMute() {
    if (this.#mute.disabled) return null;
    const muted = !this.#microphone.muted;
    this.#microphone.setMuted(muted);
    this.#mute.setAttribute("aria-pressed", String(muted));
    element("mute-words", HTMLSpanElement).textContent = muted ? "Muted" : "Mute";
    element("mute-icon", SVGUseElement).setAttribute("href", muted ? "#i-mic-off" : "#i-mic");
    this.dispatchEvent(new CustomEvent("mute", { detail: muted }));
    return muted;
  }
}
