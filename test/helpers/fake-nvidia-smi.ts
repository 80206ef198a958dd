import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { executable } from "./executable.ts";

/** What one look at the GPU shows: MiB in use, and who holds how much. */
export interface FakeGpuState {
  used: number;
  holders?: { pid: number; name: string; used: number | "[N/A]" }[];
}

/**
 * An nvidia-smi in a folder for PATH. Each look shows the next state, and the last one from then on; its command lines are
 * kept in `nvidia-smi.calls`.
 */
export function fakeNvidiaSmi(folder: string, states: FakeGpuState[], totalMib = 24_576): void {
  states.forEach(({ used, holders = [] }, index) => {
    writeFileSync(join(folder, `memory.${index}`), `${used}, ${totalMib - used}\n`);
    const lines = holders.map((holder) => `${holder.pid}, ${holder.name}, ${holder.used}\n`);
    writeFileSync(join(folder, `apps.${index}`), lines.join(""));
  });
  writeFileSync(join(folder, "next"), "0");
  executable(
    folder,
    "nvidia-smi",
    `cd '${folder}'
echo "$*" >> nvidia-smi.calls
now=$(cat next)
case "$*" in
  *--query-gpu=*) cat "memory.$now" ;;
  *) cat "apps.$now"; [ "$now" -lt ${states.length - 1} ] && echo $((now + 1)) > next; true ;;
esac`,
  );
}
