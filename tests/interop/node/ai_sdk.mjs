// The Vercel AI SDK: `ai` with `@ai-sdk/openai-compatible`.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { described, serve, text, toolParameters, versionOf } from './lines.mjs';

const resolve = createRequire(`${process.env.INTEROP_NODE}/`).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));
const ai = await load('ai');
const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
globalThis.AI_SDK_LOG_WARNINGS = false;

const provider = (ask) =>
  createOpenAICompatible({
    name: 'sluice',
    baseURL: `${ask.base_url}/v1`,
    apiKey: ask.api_key,
    includeUsage: true,
  });

const options = (ask) => ({
  maxOutputTokens: ask.max_tokens,
  ...(ask.max_retries == null ? {} : { maxRetries: ask.max_retries }),
  ...(ask.timeout == null ? {} : { abortSignal: AbortSignal.timeout(ask.timeout * 1000) }),
});

const asked = (ask) => ({ model: provider(ask)(ask.model), prompt: text(ask), ...options(ask) });

const tools = {
  tools: {
    look: ai.tool({ description: 'looks', inputSchema: ai.jsonSchema(toolParameters) }),
  },
  toolChoice: { type: 'tool', toolName: 'look' },
};

const told = (answer) => ({
  texts: [answer.text],
  finish: answer.finishReason,
  tokens: answer.usage.outputTokens,
});

// What goes wrong in a stream is one of its parts here, and is not thrown.
async function* parts(ask, more = {}) {
  const answer = ai.streamText({ ...asked(ask), onError: () => {}, ...more });
  for await (const part of answer.fullStream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'abort') throw new DOMException('aborted', 'AbortError');
    yield part;
  }
}

async function stream(ask) {
  const found = [];
  for await (const part of parts(ask)) found.push(part);
  const deltas = found.filter((part) => part.type === 'text-delta');
  return {
    texts: [deltas.map((part) => part.text).join('')],
    finish: found.find((part) => part.type === 'finish').finishReason,
    pieces: deltas.length,
  };
}

async function leave(ask) {
  const leaving = new AbortController();
  const answer = ai.streamText({ ...asked(ask), abortSignal: leaving.signal, onError: () => {} });
  for await (const _piece of answer.textStream) {
    leaving.abort();
    break;
  }
}

async function tool(ask) {
  const [call] = (await ai.generateText({ ...asked(ask), ...tools })).toolCalls;
  return { name: call.toolName, arguments: call.input };
}

async function toolStream(ask) {
  for await (const part of parts(ask, tools)) {
    if (part.type === 'tool-call') return { name: part.toolName, arguments: part.input };
  }
  return null;
}

async function completion(ask) {
  const model = provider(ask).completionModel(ask.model);
  return told(await ai.generateText({ model, prompt: 'one', ...options(ask) }));
}

async function embeddings(ask) {
  const { maxOutputTokens: _none, ...rest } = options(ask);
  const { embeddings: found } = await ai.embedMany({
    model: provider(ask).embeddingModel(ask.model),
    values: Array.from({ length: ask.count }, (_, number) => `text ${number}`),
    ...rest,
  });
  return found.map((vector) => vector.length);
}

// After its last attempt the SDK wraps what the attempts got.
function describe(error) {
  const call = error?.lastError ?? error;
  return {
    ...described(error),
    status: call?.statusCode ?? null,
    code: call?.data?.error?.code ?? call?.code ?? null,
    message: call?.message ?? String(error),
    request_id: call?.responseHeaders?.['x-request-id'] ?? null,
    retryable: call?.isRetryable ?? null,
  };
}

await serve(
  versionOf('ai'),
  {
    chat: async (ask) => told(await ai.generateText(asked(ask))),
    stream,
    leave,
    tool,
    tool_stream: toolStream,
    completion,
    embeddings,
  },
  describe,
);
