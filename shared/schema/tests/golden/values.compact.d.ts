// Without a second type argument the result is any: no output schema, none observed.
declare module "rewind:tools" {
  interface Tool<Args, Result = any> { (args: Args): Promise<Result>; raw(args: Args): Promise<McpResult> } // raw: the whole MCP result
  interface OptionalTool<Args, Result = any> { (args?: Args): Promise<Result>; raw(args?: Args): Promise<McpResult> }
  interface McpResult { content: { type: string; text?: string; [key: string]: unknown }[]; structuredContent?: any; isError?: boolean; _meta?: { [key: string]: unknown } }
  export class ToolError extends Error { private constructor(); code: "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown" | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded"; tool: string; retryable: boolean; details?: any; key: string }
  export function sleep(duration: number | string): Promise<void>; // ms, or "90s", "12h", "10d"
  export const server: {
    enums: OptionalTool<{ big?: number; both?: boolean; const?: "only"; e?: number; mixed?: "a" | 1 | 1.5 | -2 | true | null | ["x"] | { k: "v" }; none?: never; typed?: "a"; [key: string]: unknown }>;
    inferred: OptionalTool<{ array?: { [key: string]: unknown } | string[] | string | number | boolean | null; number?: unknown; object?: { x?: unknown; [key: string]: unknown } | unknown[] | string | number | boolean | null; string?: unknown; [key: string]: unknown }>;
    types: OptionalTool<{ list?: string | null; nullable?: string | null; object_or_null?: { x?: number; [key: string]: unknown } | null; unknown_type?: unknown; [key: string]: unknown }>;
  };
  export const host: {};
}
