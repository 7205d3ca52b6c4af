// SPDX-License-Identifier: Apache-2.0
/* client/models.h - the results of the server's API. */
#pragma once
struct model;

extern const struct model sandbox_info_model; /* struct osb_sandbox_info */
extern const struct model sandboxes_model;    /* struct osb_sandboxes */
extern const struct model forks_model;        /* the same, without pages */
extern const struct model expiry_model;       /* struct osb_expiry */
extern const struct model endpoint_model;     /* struct osb_endpoint; its url is not of the server's */
extern const struct model diagnostics_model;  /* struct osb_diagnostics */
extern const struct model snapshot_model;     /* struct osb_snapshot */
extern const struct model snapshots_model;    /* struct osb_snapshots */
