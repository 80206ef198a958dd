import { readFileSync, statSync } from "node:fs";
import type { Config } from "../config.ts";
import { messageOf, UsageError } from "../errors.ts";

/** Characters that a header and a path take as they are. */
const tokenPattern = /^[A-Za-z0-9._~-]{16,512}$/;
const howToMake = (place: string) => `\`openssl rand -hex 32${place}\` makes one`;

/** The store's token: of the file, else of the environment; undefined when nobody gave one. */
export function accessToken(
  config: Pick<Config, "token_file">,
  environment: Record<string, string | undefined>,
  warn: (line: string) => void = (line) => void process.stderr.write(`warning: ${line}\n`),
): string | undefined {
  const file = config.token_file;
  if (file !== undefined) return checked(readTokenFile(file, warn), `token_file: ${file}`);
  const token = environment["AGL_TOKEN"]?.trim();
  return token === undefined || token === "" ? undefined : checked(token, "AGL_TOKEN");
}

/** What is wrong is said without showing the token. */
function checked(token: string, source: string): string {
  if (tokenPattern.test(token)) return token;
  throw new UsageError(
    `${source}: a token has 16 to 512 characters out of A-Z a-z 0-9 . _ ~ - and this one has ${token.length}` +
      (token.length < 16 || token.length > 512 ? "" : ", with others among them"),
    howToMake(""),
  );
}

function readTokenFile(file: string, warn: (line: string) => void): string {
  try {
    const text = readFileSync(file, "utf8").trim();
    const mode = statSync(file).mode & 0o777;
    if ((mode & 0o077) !== 0) {
      warn(
        `token_file: other users may read ${file} (mode ${mode.toString(8)}); \`chmod 600\` keeps it to you`,
      );
    }
    return text;
  } catch (error) {
    throw new UsageError(`token_file: ${file} cannot be read (${messageOf(error)})`, howToMake(` > ${file}`));
  }
}
