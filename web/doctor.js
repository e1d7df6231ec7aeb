/** The doctor's page: what this browser and the way to the server need, one line each, with its remedy. */

import { Api } from "./client/api.js";
import { Failure } from "./client/failure.js";
import { StatsReader } from "./client/stats.js";

/** @typedef {{check: string, verdict: "good" | "warn" | "bad", found: string, remedy?: string}} Finding */

const SIGNS = { good: "✓", warn: "!", bad: "✗" };
const CALL_MS = 12_000;
const WATCH_MS = 3000;

const list = /** @type {HTMLOListElement} */ (document.getElementById("findings"));
const done = /** @type {HTMLParagraphElement} */ (document.getElementById("done"));
const again = /** @type {HTMLButtonElement} */ (document.getElementById("again"));
const token = new URLSearchParams(location.search).get("token");
const api = new Api({ server: new URL("../", location.href), token });

/** @param {Finding} finding */
function show(finding) {
  const line = document.createElement("li");
  line.className = finding.verdict;
  line.dataset.check = finding.check;
  for (const [name, text] of [["sign", SIGNS[finding.verdict]], ["check", finding.check], ["found", finding.found], ["remedy", finding.remedy]]) {
    if (!text) continue;
    const part = document.createElement("span");
    part.className = name ?? "";
    part.textContent = text;
    line.append(part);
  }
  list.append(line);
}

/** @returns {Finding} */
function secure() {
  if (isSecureContext) return { check: "address", verdict: "good", found: `${location.origin} may use the microphone` };
  return { check: "address", verdict: "bad", found: `${location.origin} is not secure`, remedy: "open it as https:// or as http://localhost: a browser gives no microphone elsewhere" };
}

/** @returns {Finding} */
function webrtc() {
  const kinds = RTCRtpReceiver.getCapabilities?.("video")?.codecs.map(({ mimeType }) => mimeType.replace("video/", "")) ?? [];
  const known = ["VP8", "H264"].filter((name) => kinds.includes(name));
  if (known.length) return { check: "codecs", verdict: "good", found: `${known.join(" and ")}, Opus` };
  return { check: "codecs", verdict: "bad", found: "neither VP8 nor H.264", remedy: "use a current Chrome, Edge, Firefox or Safari" };
}

/** @returns {Promise<Finding>} */
async function microphone() {
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const [track] = stream.getAudioTracks();
    const devices = (await navigator.mediaDevices.enumerateDevices()).filter(({ kind }) => kind === "audioinput");
    const found = `${track?.label || "a microphone"} (${devices.length} in all)`;
    stream.getTracks().forEach((each) => each.stop());
    return { check: "microphone", verdict: "good", found };
  } catch (error) {
    const name = error instanceof Error ? error.name : "unknown";
    const remedies = { NotAllowedError: "allow the microphone for this page in the address bar", NotFoundError: "plug a microphone in" };
    return { check: "microphone", verdict: "warn", found: `none (${name})`, remedy: remedies[/** @type {keyof typeof remedies} */ (name)] ?? "close other programs that use it" };
  }
}

/** @returns {Promise<Finding>} */
async function speaker() {
  const devices = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  const outputs = devices.filter(({ kind }) => kind === "audiooutput");
  if (outputs.length) return { check: "speaker", verdict: "good", found: outputs[0]?.label || `${outputs.length} outputs` };
  return { check: "speaker", verdict: "warn", found: "the browser lists none", remedy: "some browsers never list any; if nothing is heard, check the system's sound output" };
}

/** @returns {Promise<Finding>} */
async function server() {
  const began = performance.now();
  try {
    const { version, engine, sessions } = await api.capabilities();
    const found = `liveanchor ${version}, engine ${engine.name}, ${sessions.active} of ${sessions.limit} seats taken, answers in ${Math.round(performance.now() - began)} ms`;
    if (!engine.ready) return { check: "server", verdict: "warn", found: `${found}; the engine is not ready`, remedy: "wait a moment; liveanchor doctor says more there" };
    return { check: "server", verdict: "good", found };
  } catch (error) {
    const code = error instanceof Failure ? error.code : "unknown";
    return { check: "server", verdict: "bad", found: `no answer (${code})`, remedy: code === "token-needed" ? "open this page with ?token=TOKEN" : "start it, or check the address" };
  }
}

/** A whole call: candidates, the pair that won, what it carries. */
async function call() {
  const capabilities = await api.capabilities().catch(() => null);
  const avatar = (await api.avatars().catch(() => [])).find(({ state }) => state === "ready");
  if (!capabilities || !avatar) return;
  const pc = new RTCPeerConnection({ iceServers: capabilities.ice_servers });
  /** @type {string[]} */
  const kinds = [];
  pc.addEventListener("icecandidate", ({ candidate }) => candidate?.type && kinds.push(`${candidate.type} ${candidate.protocol}`));
  pc.addTransceiver("audio", { direction: "recvonly" });
  pc.addTransceiver("video", { direction: "recvonly" });
  let session = "";
  try {
    await pc.setLocalDescription();
    await gathered(pc);
    const counted = [...new Set(kinds)].map((kind) => `${kinds.filter((each) => each === kind).length} ${kind}`);
    show(kinds.length
      ? { check: "candidates", verdict: "good", found: counted.join(", ") }
      : { check: "candidates", verdict: "bad", found: "this browser offers no address", remedy: "connect it to a network; on a machine with loopback only start Chromium with --allow-loopback-in-peer-connection" });
    if (!kinds.some((kind) => kind.startsWith("relay"))) {
      const remedy = "behind a strict firewall a TURN server is needed; the server names one under [ice]";
      show({ check: "turn", verdict: "warn", found: "no relay offered", remedy });
    }
    const began = performance.now();
    const query = new URLSearchParams({ avatar: avatar.id, source: "none", canvas: "256" });
    const answer = await api.call(`api/sessions?${query}`, { method: "POST", body: pc.localDescription?.sdp ?? "", type: "application/sdp" });
    session = answer.headers.get("Location") ?? "";
    await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
    await connected(pc);
    show({ check: "connection", verdict: "good", found: `made in ${Math.round(performance.now() - began)} ms` });
    const reader = new StatsReader();
    reader.read(await pc.getStats());
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
    report(await pc.getStats(), reader);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    const remedy = "UDP between this browser and the server is blocked: open the server's --udp-ports, set --announce, or set a TURN server";
    show({ check: "connection", verdict: "bad", found: said || "no way through", remedy });
  } finally {
    if (session) await api.call(session, { method: "DELETE" }).catch(() => {}); // gone already is as good
    pc.close();
  }
}

/**
 * @param {RTCStatsReport} stats
 * @param {StatsReader} reader
 */
function report(stats, reader) {
  /** @type {Map<string, Record<string, any>>} */
  const entries = new Map();
  stats.forEach((entry, id) => entries.set(id, entry));
  const transport = [...entries.values()].find(({ type }) => type === "transport");
  const pair = entries.get(transport?.selectedCandidatePairId) ?? [...entries.values()].find(({ type, nominated }) => type === "candidate-pair" && nominated);
  const [local, remote] = [entries.get(pair?.localCandidateId), entries.get(pair?.remoteCandidateId)];
  const figures = reader.read(stats);
  const rtt = figures.rttMs === null ? "" : `, round trip ${figures.rttMs.toFixed(0)} ms`;
  show({ check: "pair", verdict: "good", found: `${local?.candidateType ?? "?"} to ${remote?.candidateType ?? "?"} over ${local?.protocol ?? "?"}${rtt}` });
  const fps = figures.fps ?? 0;
  const said = `${figures.codec ?? "?"}, ${fps.toFixed(0)} pictures a second, ${figures.packetsLost} packets lost`;
  show(fps > 20
    ? { check: "picture", verdict: "good", found: said }
    : { check: "picture", verdict: "warn", found: said, remedy: "the network, this machine or the server is too slow for 25; try a smaller size" });
}

/** @param {RTCPeerConnection} pc */
function gathered(pc) {
  return new Promise((resolve) => {
    if (pc.iceGatheringState === "complete") resolve(undefined);
    pc.addEventListener("icegatheringstatechange", () => pc.iceGatheringState === "complete" && resolve(undefined));
    setTimeout(resolve, 3000);
  });
}

/** @param {RTCPeerConnection} pc */
function connected(pc) {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (pc.connectionState === "connected") resolve(undefined);
      if (pc.connectionState === "failed") reject(new Error("no pair of addresses works"));
    };
    pc.addEventListener("connectionstatechange", look);
    setTimeout(() => reject(new Error(`not connected within ${CALL_MS / 1000} s`)), CALL_MS);
    look();
  });
}

async function examine() {
  list.replaceChildren();
  again.hidden = done.hidden = true;
  show(secure());
  show(webrtc());
  show(await microphone());
  show(await speaker());
  show(await server());
  await call();
  const wrong = list.querySelectorAll(".bad").length;
  done.textContent = wrong ? `${wrong} of ${list.children.length} are wrong.` : "Nothing is wrong.";
  done.hidden = again.hidden = false;
  document.documentElement.dataset.examined = wrong ? "bad" : "good";
}

again.addEventListener("click", () => examine());
examine();
