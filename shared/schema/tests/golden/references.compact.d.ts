// Without a second type argument the result is any: no output schema, none observed.
declare module "rewind:tools" {
  interface Tool<Args, Result = any> { (args: Args): Promise<Result>; raw(args: Args): Promise<McpResult> } // raw: the whole MCP result
  interface OptionalTool<Args, Result = any> { (args?: Args): Promise<Result>; raw(args?: Args): Promise<McpResult> }
  interface McpResult { content: { type: string; text?: string; [key: string]: unknown }[]; structuredContent?: any; isError?: boolean; _meta?: { [key: string]: unknown } }
  export class ToolError extends Error { private constructor(); code: "invalid_arguments" | "tool_failed" | "invalid_result" | "timeout" | "unavailable" | "outcome_unknown" | "rejected" | "credentials" | "refused" | "too_large" | "cancelled" | "not_recorded"; tool: string; retryable: boolean; details?: any; key: string }
  export function sleep(duration: number | string): Promise<void>; // ms, or "90s", "12h", "10d"
  type Promise_2 = string;
  type LabelRef = { name: string; [key: string]: unknown };
  type Here = boolean;
  type Label = LabelRef;
  type A1b = number;
  type LabelRef_2 = string;
  type Args = { x?: string; [key: string]: unknown };
  export const server: {
    builtin_name: OptionalTool<{ p?: Promise_2; [key: string]: unknown }>;
    local: OptionalTool<{ again?: LabelRef; by_anchor?: Here; label?: LabelRef; property?: Label; slash?: A1b; [key: string]: unknown }>;
    other_definition: OptionalTool<{ label?: LabelRef_2; [key: string]: unknown }>;
    remote: OptionalTool<{ gone?: unknown /* $ref to nothing */; there?: unknown /* remote $ref */; [key: string]: unknown }>;
    same_definition: OptionalTool<{ label?: LabelRef; [key: string]: unknown }>;
    whole_root: OptionalTool<Args>;
  };
  export const host: {};
}
