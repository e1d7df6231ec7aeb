/** Trickle ICE on the wire: an SDP fragment of RFC 8840 from candidates of one peer connection. */

/**
 * @param {string} sdp the local description the candidates belong to
 * @param {RTCIceCandidate[]} candidates
 * @param {boolean} ended whether these are the last
 * @returns {string} body for `application/trickle-ice-sdpfrag`
 */
export function candidateFragment(sdp, candidates, ended) {
  const lines = [line(sdp, /^a=ice-ufrag:.*$/m), line(sdp, /^a=ice-pwd:.*$/m)].filter(Boolean);
  const mids = [...new Set(candidates.map((candidate) => candidate.sdpMid ?? firstMid(sdp)))];
  if (mids.length === 0) mids.push(firstMid(sdp));
  for (const mid of mids) {
    lines.push(mediaLine(sdp, mid), `a=mid:${mid}`);
    for (const candidate of candidates) {
      if ((candidate.sdpMid ?? firstMid(sdp)) === mid) lines.push(`a=${candidate.candidate}`);
    }
    if (ended) lines.push("a=end-of-candidates");
  }
  return `${lines.join("\r\n")}\r\n`;
}

/**
 * @param {string} text
 * @param {RegExp} pattern
 */
function line(text, pattern) {
  return text.match(pattern)?.[0].trim() ?? "";
}

/** @param {string} sdp */
function firstMid(sdp) {
  return sdp.match(/^a=mid:(\S+)/m)?.[1] ?? "0";
}

/**
 * The m= line of a mid with the port set to 9, as RFC 8840 asks.
 * @param {string} sdp
 * @param {string} mid
 */
function mediaLine(sdp, mid) {
  const section = sdp.split(/^(?=m=)/m).find((part) => new RegExp(`^a=mid:${mid}\\s*$`, "m").test(part)) ?? "";
  const [kind = "m=audio", , protocol = "UDP/TLS/RTP/SAVPF", ...formats] = line(section, /^m=.*$/m).split(" ");
  return [kind, "9", protocol, formats[0] ?? "0"].join(" ");
}
