// Tool<A> takes A, further members allowed; ClosedTool<A> exactly A; no argument where all of A is optional. R absent: the result's shape is unknown.
declare module "rewind:tools" {
type Args<A>={} extends A?[args?:A]:[args:A]
interface ClosedTool<A,R=any>{(...a:Args<A>):Promise<R>;raw(...a:Args<A>):Promise<McpResult>} // raw: the whole MCP result
type Tool<A,R=any>=ClosedTool<A|A&{[k:string]:unknown},R>
interface McpResult{content:{type:string;text?:string;[k:string]:unknown}[];structuredContent?:any;isError?:boolean;_meta?:any}
export class ToolError extends Error{private constructor();code:"invalid_arguments"|"tool_failed"|"invalid_result"|"timeout"|"unavailable"|"outcome_unknown"|"rejected"|"credentials"|"refused"|"too_large"|"cancelled"|"not_recorded";tool:string;retryable:boolean;details?:any;key:string}
export function sleep(duration:number|string):Promise<void> // ms, or "90s", "12h", "10d"
type X=unknown /* $ref to itself */
type Y=unknown /* $ref to itself */
type A={b?:B,[k:string]:unknown}
type B=A|null
type TreeArgs={value:string,children?:TreeArgs[],[k:string]:any}
type T=unknown /* $ref to itself */
export const server:{
itself:Tool<{x?:X}>
mutual:Tool<{a?:A}>
tree:Tool<{value:string,children?:TreeArgs[]}>
tuple:Tool<{t?:T}>
};
export const host:{};
}
