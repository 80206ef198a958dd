const secretName = /(^|[._])(key|token|secret|password)$/;
const secretFlag = /^--?(?:[\w-]+-)?(?:key|token|secret|password)(=|$)/i;
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

/** A command line as it may be shown: without the values of flags that are secret by their name. */
export function maskedCommand(words: string[]): string {
  let secretNext = false;
  const shown = words.map((word) => {
    const isValue = secretNext;
    const found = secretFlag.exec(word);
    const equals = found?.[1];
    secretNext = equals === "";
    if (isValue) return mask;
    return equals === "=" ? `${found?.[0]}${mask}` : word;
  });
  return withoutSecrets(shown.join(" "));
}
