/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from the tables in abi/ by `make abi`; edit those, not this file. */

/** @file
 * Point-to-point transfers.
 */
#ifndef OPENNRT_NRT_ASYNC_SENDRECV_H
#define OPENNRT_NRT_ASYNC_SENDRECV_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nrt_async_sendrecv_request nrt_async_sendrecv_request_t;
typedef struct nrt_async_sendrecv_comm nrt_async_sendrecv_comm_t;

/**
 * Starts to wait for one peer. Thread-safe; NRT_RESOURCE above the communicator limit. The
 * original checks the state further down; the usual gate is our choice. Not implemented yet: logs
 * an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_accept(const char *peer_ip, int peer_lnc, int lnc, nrt_async_sendrecv_comm_t **recv_comm);

/**
 * Ends send and receive on a core; refused while a communicator is unconnected or a request is in
 * flight. The original checks the state further down; the usual gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_close(int lnc);

/**
 * Starts to connect to one peer. Thread-safe; NRT_RESOURCE above the communicator limit. The
 * original checks the state further down; the usual gate is our choice. Not implemented yet: logs
 * an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_connect(const char *peer_ip, int peer_lnc, int lnc, nrt_async_sendrecv_comm_t **send_comm);

/**
 * Flush of one core; no source says what it waits for. The original checks the state further down;
 * the usual gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init.
 * Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_flush(int lnc);

/**
 * How many communicators one logical core may hold. The original checks the state further down;
 * the usual gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init.
 * Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int *num);

/**
 * How many requests may be pending on one communicator. The original checks the state further
 * down; the usual gate is our choice. Not implemented yet: logs an error and fails; needs
 * nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int *num);

/**
 * Opens send and receive on a core given by its absolute index on the host; asks for
 * NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED=1 and a bootstrap port, and for a close before
 * nrt_close. The original checks the state further down; the usual gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_init(int lnc);

/**
 * Queues one receive and returns at once. Thread-safe; NRT_RESOURCE with too many pending,
 * NRT_INVALID_HANDLE when not connected. The original checks the state further down; the usual
 * gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t *tensor, size_t offset, size_t length, nrt_async_sendrecv_comm_t *recv_comm, nrt_async_sendrecv_request_t **request);

/**
 * Queues one send and returns at once. Thread-safe; NRT_RESOURCE with too many pending,
 * NRT_INVALID_HANDLE when not connected. The original checks the state further down; the usual
 * gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t *tensor, size_t offset, size_t length, nrt_async_sendrecv_comm_t *send_comm, nrt_async_sendrecv_request_t **request);

/**
 * Whether a communicator is connected yet. The original checks the state further down; the usual
 * gate is our choice. Not implemented yet: logs an error and fails; needs nrt_init. Version node
 * NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t *comm, bool *done);

/**
 * Whether a request is finished and how much moved; one thread per request, and never again after
 * it said done. The original checks the state further down; the usual gate is our choice. Not
 * implemented yet: logs an error and fails; needs nrt_init. Version node NRT_2.0.0.
 */
NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t *request, bool *done, size_t *size);

#ifdef __cplusplus
}
#endif

#endif
