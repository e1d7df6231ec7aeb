/** Rooms over HTTP: their state as it changes, and what a moderator may do. Knows no element. */

import { refusal } from "./wire.js";

const RETRY_MS = 2000;

export class Rooms {
  #server;
  #headers;

  /**
   * @param {URL} server
   * @param {string | null} token
   */
  constructor(server, token) {
    this.#server = server;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** @param {string} path */
  url(path) {
    return new URL(path, this.#server);
  }

  /** @returns {Promise<any[]>} */
  async list() {
    return (await this.#json("GET", "api/rooms")).rooms;
  }

  /**
   * @param {string} room
   * @param {string} path below the room
   * @param {object} [body]
   */
  async act(room, path, body) {
    return this.#json("POST", `api/rooms/${encodeURIComponent(room)}/${path}`, body);
  }

  /**
   * @param {string} room
   * @param {string} seat
   * @param {Blob | string} sound
   */
  async speak(room, seat, sound) {
    const path = `api/rooms/${encodeURIComponent(room)}/seats/${encodeURIComponent(seat)}/speech`;
    const type = typeof sound === "string" ? "text/plain; charset=utf-8" : sound.type || "application/octet-stream";
    const headers = { ...this.#headers, "Content-Type": type };
    const response = await fetch(this.url(path), { method: "POST", body: sound, headers });
    if (!response.ok) throw await refusal(response);
  }

  /**
   * Calls back with the room's state, five times a second, until the signal; goes on after interruptions, with no words
   * of trouble when it is over.
   * @param {string} room
   * @param {(state: any) => void} onState
   * @param {(words: string) => void} onTrouble
   * @param {AbortSignal} signal
   */
  async follow(room, onState, onTrouble, signal) {
    let troubled = false;
    const onNews = (/** @type {any} */ state) => {
      if (troubled) onTrouble("");
      troubled = false;
      onState(state);
    };
    while (!signal.aborted) {
      try {
        await this.#read(room, onNews, signal);
        troubled = true;
        onTrouble("The room has ended.");
      } catch (error) {
        if (signal.aborted) return;
        troubled = true;
        onTrouble(error instanceof Error ? error.message : String(error));
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }

  /**
   * @param {string} room
   * @param {(state: any) => void} onState
   * @param {AbortSignal} signal
   */
  async #read(room, onState, signal) {
    const url = this.url(`api/rooms/${encodeURIComponent(room)}/events`);
    const response = await fetch(url, { headers: this.#headers, signal });
    if (!response.ok || !response.body) throw await refusal(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const messages = (rest + value).split("\n\n");
      rest = messages.pop() ?? "";
      const last = messages.filter((message) => message.startsWith("data: ")).pop();
      if (last) onState(JSON.parse(last.slice(6)));
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   */
  async #json(method, path, body) {
    const headers = body ? { ...this.#headers, "Content-Type": "application/json" } : this.#headers;
    const response = await fetch(this.url(path), { method, headers, body: body && JSON.stringify(body) });
    if (!response.ok) throw await refusal(response);
    return response.json();
  }
}
