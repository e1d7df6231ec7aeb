/** A canvas that is sharp on every screen, redrawn when its size or the colour scheme changes. */

export class Surface {
  #canvas;
  #draw;
  #context;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {(surface: Surface) => void} draw paints the whole surface, in CSS pixels
   */
  constructor(canvas, draw) {
    this.#canvas = canvas;
    this.#draw = draw;
    this.#context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  get context() {
    return this.#context;
  }

  get width() {
    return this.#canvas.clientWidth;
  }

  get height() {
    return this.#canvas.clientHeight;
  }

  /**
   * A colour of the theme.
   * @param {string} name custom property without its dashes
   */
  colour(name) {
    return getComputedStyle(this.#canvas).getPropertyValue(`--${name}`).trim();
  }

  redraw() {
    if (this.width === 0 || this.height === 0) return;
    const scale = devicePixelRatio || 1;
    const width = Math.round(this.width * scale);
    const height = Math.round(this.height * scale);
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    this.#context.setTransform(scale, 0, 0, scale, 0, 0);
    this.#context.clearRect(0, 0, this.width, this.height);
    this.#context.font = `12px ${getComputedStyle(this.#canvas).fontFamily}`;
    this.#draw(this);
  }

  /**
   * @param {string} text
   * @param {number} x
   * @param {number} y baseline
   * @param {{align?: CanvasTextAlign, colour?: string}} [style]
   */
  write(text, x, y, { align = "left", colour = this.colour("ink-soft") } = {}) {
    this.#context.fillStyle = colour;
    this.#context.textAlign = align;
    this.#context.fillText(text, x, y);
  }
}
