// SPDX-License-Identifier: Apache-2.0
#include "ipc/messages.h"

#include "base/mem.h"

#define MSG(type, body, fds_min, fds_max) [type] = { #type, body, fds_min, fds_max }
#define PAIR(pair, table) const struct wire_pair wire_##pair = { #pair, table, ARRAY_SIZE(table) }

static const struct wire_type dl[] = {
	MSG(DL_HELLO, sizeof(struct msg_hello), 0, 0),
	MSG(DL_BUILD, sizeof(struct dl_build), 0, 0),
	MSG(DL_HANDOVER, sizeof(struct dl_handover), 0, 0),
	MSG(DL_KILL, sizeof(struct msg_sandbox), 0, 0),
	MSG(DL_VOLUME_CREATE, sizeof(struct dl_volume_create), 0, 0),
	MSG(DL_VOLUME_DELETE, sizeof(struct dl_volume), 0, 0),
	MSG(DL_VOLUME_STAT, sizeof(struct dl_volume), 0, 0),
	MSG(DL_STATUS, 0, 0, 0),
	MSG(DL_POLICY, sizeof(struct dl_policy), 0, 0),
	MSG(DL_SNAPSHOT_CREATE, sizeof(struct dl_snapshot_create), 0, 0),
	MSG(DL_SNAPSHOT_SEAL, sizeof(struct dl_volume), 0, 0),
	MSG(DL_VOLUME_LIMIT, sizeof(struct dl_volume_limit), 0, 0),
};
PAIR(dl, dl);

static const struct wire_type ld[] = {
	MSG(LD_HELLO, sizeof(struct ld_hello), 0, 0),
	MSG(LD_SLOT, sizeof(struct ld_slot), LD_SLOT_FDS, LD_SLOT_FDS),
	MSG(LD_SANDBOX, sizeof(struct ld_sandbox), 1, 1),
	MSG(LD_BUILD_FAILED, sizeof(struct msg_done), 0, 0),
	MSG(LD_GONE, sizeof(struct msg_sandbox), 0, 0),
	MSG(LD_HANDOVER_FAILED, sizeof(struct ld_handover_failed), 0, 0),
	MSG(LD_DONE, sizeof(struct msg_done), 0, 0),
	MSG(LD_READY, sizeof(struct ld_ready), 1, 1),
	MSG(LD_VOLUME_STAT, sizeof(struct ld_volume_stat), 0, 0),
	MSG(LD_POLICY, sizeof(struct ld_policy), 0, 1),
	MSG(LD_STATUS, sizeof(struct ld_status), 0, 0),
	MSG(LD_GATEWAY, 0, 1, 1),
};
PAIR(ld, ld);

static const struct wire_type lb[] = {
	MSG(LB_BUILD, sizeof(struct lb_build), 0, 0),
	MSG(LB_RETIRE, sizeof(struct lb_retire), 0, 0),
};
PAIR(lb, lb);

static const struct wire_type bl[] = {
	MSG(BL_SLOT, sizeof(struct ld_slot), LD_SLOT_FDS, LD_SLOT_FDS),
	MSG(BL_BUILT, sizeof(struct bl_built), 4, 4),
	MSG(BL_FAILED, sizeof(struct bl_failed), 0, 0),
	MSG(BL_NET, sizeof(struct msg_sandbox), NET_FDS, NET_FDS + 1),
};
PAIR(bl, bl);

static const struct wire_type ls[] = {
	MSG(LS_VOLUME_CREATE, sizeof(struct dl_volume_create), 0, 0),
	MSG(LS_VOLUME_DELETE, sizeof(struct dl_volume), 0, 0),
	MSG(LS_VOLUME_STAT, sizeof(struct dl_volume), 0, 0),
	MSG(LS_STATUS, 0, 0, 0),
	MSG(LS_SNAPSHOT_CREATE, sizeof(struct dl_snapshot_create), 0, 0),
	MSG(LS_SNAPSHOT_SEAL, sizeof(struct dl_volume), 0, 0),
	MSG(LS_VOLUME_LIMIT, sizeof(struct dl_volume_limit), 0, 0),
	MSG(LS_STOP, 0, 0, 0),
};
PAIR(ls, ls);

static const struct wire_type sl[] = {
	MSG(SL_DONE, sizeof(struct msg_done), 0, 0),
	MSG(SL_VOLUME_STAT, sizeof(struct ld_volume_stat), 0, 0),
	MSG(SL_STATUS, sizeof(struct ld_status), 0, 0),
};
PAIR(sl, sl);

static const struct wire_type li[] = {
	MSG(LI_ATTACH, sizeof(struct li_attach), 1, 2),
};
PAIR(li, li);

static const struct wire_type di[] = {
	MSG(DI_EXEC, sizeof(struct di_exec), 3, 4),	MSG(DI_FILE, sizeof(struct di_file), 1, 2),
	MSG(DI_KILL, sizeof(struct di_kill), 0, 0),	MSG(DI_END, 0, 0, 0),
	MSG(DI_COMMIT, sizeof(struct di_commit), 0, 0),
};
PAIR(di, di);

static const struct wire_type id[] = {
	MSG(ID_HELLO, sizeof(struct msg_hello), 0, 0),
	MSG(ID_STARTED, sizeof(struct id_started), 0, 0),
	MSG(ID_EXITED, sizeof(struct id_exited), 0, 0),
	MSG(ID_FILE, sizeof(struct id_file), 0, 0),
	MSG(ID_FILE_END, sizeof(struct id_file), 0, 0),
	MSG(ID_REFUSED, sizeof(struct id_refused), 0, 0),
};
PAIR(id, id);

static const struct wire_type lg[] = {
	MSG(LG_SANDBOX, sizeof(struct msg_sandbox), NET_FDS, NET_FDS),
	MSG(LG_GONE, sizeof(struct msg_sandbox), 0, 0),
	MSG(LG_DAEMON, 0, 1, 1),
};
PAIR(lg, lg);

static const struct wire_type gl[] = {
	MSG(GL_HELLO, sizeof(struct msg_hello), 0, 0),
};
PAIR(gl, gl);

static const struct wire_type dg[] = {
	MSG(DG_HELLO, sizeof(struct msg_hello), 0, 0),
	MSG(DG_SESSION, sizeof(struct dg_session), 1, 1),
	MSG(DG_SESSION_END, sizeof(struct dg_session), 0, 0),
	MSG(DG_BIND, sizeof(struct dg_bind), 0, 0),
	MSG(DG_READY, 0, 0, 0),
	MSG(DG_LIVE, sizeof(struct dg_session), 0, 0),
	MSG(DG_FETCH, sizeof(struct dg_fetch), 2, 2),
	MSG(DG_FETCH_END, 0, 0, 0),
};
PAIR(dg, dg);

static const struct wire_type gd[] = {
	MSG(GD_HELLO, sizeof(struct msg_hello), 0, 0),
	MSG(GD_DENIED, sizeof(struct gd_denied), 0, 0),
	MSG(GD_LIVE, sizeof(struct gd_live), 1, 1),
	MSG(GD_FETCHED, sizeof(struct gd_fetched), 0, 0),
	MSG(GD_COUNTED, sizeof(struct gd_counted), 0, 0),
};
PAIR(gd, gd);

_Static_assert(NET_FDS + 1 <= WIRE_FDS && LD_SLOT_FDS <= WIRE_FDS, "fits");
_Static_assert(sizeof(struct wire_head) == 8, "the head is eight bytes");
_Static_assert(sizeof(struct wire_head) + sizeof(struct bl_failed) <= WIRE_MAX, "fits");
_Static_assert(sizeof(struct wire_head) + sizeof(struct msg_done) <= WIRE_MAX, "fits");
_Static_assert(sizeof(struct wire_head) + sizeof(struct ld_sandbox) <= WIRE_MAX, "fits");
_Static_assert(sizeof(struct wire_head) + sizeof(struct gd_denied) <= WIRE_MAX, "fits");
_Static_assert(sizeof(struct wire_head) + sizeof(struct gd_counted) <= WIRE_MAX, "fits");
_Static_assert(sizeof(struct wire_head) + sizeof(struct gd_fetched) <= WIRE_MAX, "fits");
