export interface DirectFetchOptions extends RequestInit {
  /** Path of a Unix socket to send the request through; the URL's host is then only a name. */
  unix?: string;
}

export type DirectFetch = (url: string, options?: DirectFetchOptions) => Promise<Response>;

const loopbackHost = /^(?:localhost|.*\.localhost|127(?:\.\d{1,3}){3}|\[::1\]|0\.0\.0\.0|\[::\])$/;

/**
 * `fetch` that reaches this machine directly. Bun's sends requests for loopback addresses through
 * HTTP_PROXY, too; `proxy: false` is what stops it. Other hosts go the way the environment says.
 */
export const directFetch: DirectFetch = (url, options = {}) => {
  const direct = options.unix !== undefined || isLoopback(url);
  return fetch(url, (direct ? { ...options, proxy: false } : options) as RequestInit);
};

/** Parsing an address takes longer than looking it up, and few are asked again and again. */
const known = new Map<string, boolean>();
const maxKnown = 1_000;

export function isLoopback(url: string): boolean {
  let loopback = known.get(url);
  if (loopback === undefined) {
    loopback = loopbackHost.test(new URL(url).hostname);
    if (known.size >= maxKnown) known.clear();
    known.set(url, loopback);
  }
  return loopback;
}
