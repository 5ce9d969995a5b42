/** The public library. Importing it opens nothing, starts nothing and registers nothing. */
export type { Host } from './kernel/host.js'
export { IptablesError } from './kernel/iptables/tools.js'
export { MalformedMessage, NetlinkError } from './kernel/netlink/errors.js'
export { type Conclusion, conclude } from './node/conclude.js'
export { type Deployed, type DeployOptions, deploy } from './node/deploy.js'
export {
  GuardError,
  type GuardErrorCode,
  ReadError,
  type ReadErrorCode,
  UsageError,
  WiringError,
} from './node/errors.js'
export { type LockOptions, lockNodeState, type NodeStateLock, openNode } from './node/guard.js'
export { ContainerNet, type ContainerNetOptions, type WorkloadNames } from './node/net.js'
export type { Notice, Outcome, Plan, Step, StepResult } from './node/plan.js'
export { BrakeError, type Log, type ReconcileOptions, reconcile } from './node/reconcile.js'
export type { Reconciled, ReconciledJson, ReconciledStep } from './node/reconciled.js'
export { fileRecorder, type Recorder } from './node/record.js'
export { type StopOptions, type Stopped, stop, stopAddress } from './node/stop.js'
export { Subnet } from './node/subnet.js'
export { planWithoutSubnet, recoverSubnet } from './node/subnet-recovery.js'
export { planSweep } from './node/sweep.js'
export { confirmNode, type NodeView, readNode } from './node/view.js'
export { checkWorkload, type Workload, type WorkloadDescription, workloadSchema } from './node/workload.js'
