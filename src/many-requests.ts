import { dlopen, FFIType, ptr } from "bun:ffi";
import { selfCommand } from "./self.ts";

const variable = "BUN_CONFIG_MAX_HTTP_REQUESTS";
/** The most that Bun takes. */
const most = "65336";
const libraries = ["libc.so.6", "libc.so", "libSystem.B.dylib"];

/**
 * Bun sends at most 256 requests at a time, the others queue without a word, and it reads another number from the
 * environment only when it starts. So the process becomes itself once more: same id, files and arguments. Where that
 * does not work, it goes on with 256.
 */
export function allowManyRequests(args: string[]): void {
  if (process.env[variable] !== undefined) return;
  const environment = { ...process.env, [variable]: most };
  const texts = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  for (const library of libraries) {
    try {
      becomeProgram(library, selfCommand(args), texts);
    } catch {
      continue;
    }
  }
}

function becomeProgram(library: string, command: string[], environment: string[]): void {
  const { symbols } = dlopen(library, {
    execve: { args: [FFIType.ptr, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
  });
  const [argv, envp] = [textArray(command), textArray(environment)];
  symbols.execve(ptr(argv.texts[0]!), ptr(argv.pointers), ptr(envp.pointers));
}

/** Both must stay reachable while the pointers are used. */
function textArray(texts: string[]): { texts: Buffer[]; pointers: BigUint64Array } {
  const buffers = texts.map((text) => Buffer.from(`${text}\0`));
  const pointers = new BigUint64Array(buffers.length + 1);
  buffers.forEach((buffer, index) => (pointers[index] = BigInt(ptr(buffer))));
  return { texts: buffers, pointers };
}
