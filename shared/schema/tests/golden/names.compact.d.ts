// Without a second type argument the result is any: no output schema, none observed.
declare module "rewind:tools" {
  interface Tool<Args, Result = any> { (args: Args): Promise<Result>; raw(args: Args): Promise<McpResult> } // raw: the whole MCP result
  interface OptionalTool<Args, Result = any> { (args?: Args): Promise<Result>; raw(args?: Args): Promise<McpResult> }
  interface McpResult { content: { type: string; text?: string; [key: string]: unknown }[]; structuredContent?: any; isError?: boolean; _meta?: { [key: string]: unknown } }
  export class ToolError extends Error { private constructor(); code: "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown" | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded"; tool: string; retryable: boolean; details?: any; key: string }
  export function sleep(duration: number | string): Promise<void>; // ms, or "90s", "12h", "10d"
  export const server: {
    "": OptionalTool<{ [key: string]: unknown }>;
    "__proto__": OptionalTool<{ [key: string]: unknown }>;
    "a.b": OptionalTool<{ [key: string]: unknown }>;
    "constructor": OptionalTool<{ [key: string]: unknown }>;
    delete: OptionalTool<{ [key: string]: unknown }>;
    "read-file": OptionalTool<{ [key: string]: unknown }>;
    read_file: OptionalTool<{ [key: string]: unknown }>;
    "resolve-library-id": OptionalTool<{ ""?: unknown; "1"?: unknown; "__proto__"?: string; "a-b"?: string; "constructor"?: number | Function; "get"?: unknown; "new"?: unknown; "q\"\\\n\u2028"?: unknown; "readonly"?: unknown; "é"?: unknown; [key: string]: unknown }>;
    then: OptionalTool<{ [key: string]: unknown }>;
    toString: OptionalTool<{ [key: string]: unknown }>;
  };
  export const host: {};
}
