// Of one connection only, or no longer true once the body is decoded or edited.
const connectionHeaders = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-encoding",
  "content-length",
];

/** Of an answer whose body goes on decoded, and perhaps edited. */
export function relayedHeaders(headers: Headers): Headers {
  const relayed = new Headers(headers);
  for (const name of connectionHeaders) relayed.delete(name);
  return relayed;
}
