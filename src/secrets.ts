const secretName = /(^|[._])(key|token|secret|password)$/;
const mask = "********";

/** A setting's value as it may be shown: no secret, and none in an address. */
export function masked(name: string, value: unknown): unknown {
  if (value === undefined) return undefined;
  if (secretName.test(name)) return mask;
  return typeof value === "string" ? withoutSecrets(value) : value;
}

/** A text in which every address has lost its password, and its token as a path (`/t/TOKEN`). */
export function withoutSecrets(text: string): string {
  return text
    .replace(/(\/\/)[^/@\s]+@/g, `$1${mask}@`)
    .replace(/(\/\/[^/\s"']+(?:\/[^/\s"']+)*?\/t\/)[^/\s"']+/g, `$1${mask}`);
}
