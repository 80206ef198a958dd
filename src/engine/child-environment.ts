const kept = new Set(
  `PATH HOME USER LOGNAME SHELL TERM LANG LANGUAGE TZ TMPDIR TEMP TMP
   HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
   SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS
   LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH CC CXX`.split(/\s+/),
);

const keptPrefixes = [
  "LC_",
  "XDG_",
  "PIP_",
  "UV_",
  "HF_",
  "HUGGINGFACE_",
  "HUGGING_FACE_",
  "TRANSFORMERS_",
  "TOKENIZERS_",
  "CUDA_",
  "NVIDIA_",
  "NCCL_",
  "VLLM_",
  "TORCH_",
  "PYTORCH_",
  "TRITON_",
  "UNSLOTH_",
  "OMP_",
  "KMP_",
  "MKL_",
  "OPENBLAS_",
];

const loopback = ["127.0.0.1", "localhost", "::1"];

/**
 * The environment of every child: what finding programs, networks, certificates, caches and devices needs, and
 * nothing else. Loopback never goes through a proxy. PYTHONDONTWRITEBYTECODE is left out on purpose:
 * without byte code a start of the model server takes three times as long.
 */
export function childEnvironment(
  extra: Record<string, string> = {},
  from: Record<string, string | undefined> = process.env,
): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(from)) {
    if (value === undefined) continue;
    if (kept.has(name) || keptPrefixes.some((prefix) => name.startsWith(prefix))) environment[name] = value;
  }
  const noProxy = withLoopback(from["NO_PROXY"] ?? from["no_proxy"]);
  return { ...environment, NO_PROXY: noProxy, no_proxy: noProxy, ...extra };
}

function withLoopback(noProxy: string | undefined): string {
  const given = (noProxy ?? "")
    .split(",")
    .map((host) => host.trim())
    .filter((host) => host !== "");
  return [...new Set([...given, ...loopback])].join(",");
}
