import { isIP } from "node:net";

const hostNamePattern = /^[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?$/;

/** An IP address or a host name to listen on, without port and brackets. */
export function listenAddress(given: string): string {
  const bare = given.replace(/^\[(.*)\]$/, "$1");
  if (isIP(bare) !== 0 || hostNamePattern.test(bare.toLowerCase())) return bare;
  throw new Error("expected an IP address or a host name, without a port");
}

/** A name or address as it stands in the `Host` header, without a port. */
export function hostName(given: string): string {
  const name = given.toLowerCase();
  if (hostNamePattern.test(name) || isIP(name) === 4) return name;
  const bare = name.replace(/^\[(.*)\]$/, "$1");
  if (isIP(bare) === 6) return `[${bare}]`;
  throw new Error("expected a host name or an IP address, without http:// and port");
}

/** What a browser sends as `Origin`, or `*`. */
export function origin(given: string): string {
  if (given === "*") return given;
  const parsed = URL.canParse(given) ? new URL(given) : undefined;
  if (
    parsed !== undefined &&
    /^https?:$/.test(parsed.protocol) &&
    given.replace(/\/$/, "").toLowerCase() === parsed.origin
  )
    return parsed.origin;
  throw new Error("expected an origin such as http://localhost:3000, without a path, or *");
}

/** Whether only this machine can reach what listens there. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return (
    name === "localhost" || name.endsWith(".localhost") || name === "::1" || /^127(\.\d{1,3}){3}$/.test(name)
  );
}
